//! The rules of budgets, one by one.

mod available;
mod change;
mod check;
mod explanation;
mod fixture;
mod plan;
mod reserve;
mod terms;
