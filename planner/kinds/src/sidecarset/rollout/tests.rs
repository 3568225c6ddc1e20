mod cold;
mod consistency;
mod convergence;
mod fixture;
mod hot;
mod selection;
mod triggers;
mod upgradable;
