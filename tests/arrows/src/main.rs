//! Refuses wrong arrows between modules: `arrows CRATE...` reads the sources of each crate as text.
//!
//! One module uses another where it imports or writes a path that leads to it. A name that a module only
//! passes on (`pub use`) belongs to the module that has it. Comments, texts and `#[cfg(test)]` don't count,
//! nor does what needs no path, such as a method of a value.
//!
//! 1. No folder of `planner/kinds` uses another one but `workload`.
//! 2. Modules form no circle. A folder is one module seen from outside: what one of its files uses, the folder
//!    uses. So the modules of a crate form no circle, nor do the files of any folder.
//! 3. A parent and its children are the exception: the parent lists its children and calls them, and they may
//!    use the parent's own names.
//! 4. `kind.rs` is another: it declares the trait that every kind implements. The trait speaks of the types
//!    beside it, which in turn ask for the trait. So what `kind.rs` uses of its own folder does not count.

use std::path::Path;
use std::process::ExitCode;

mod modules;
mod rules;
mod tokens;

fn main() -> ExitCode {
    let mut problems = Vec::new();
    for name in std::env::args().skip(1) {
        match modules::Crate::read(&Path::new(&name).join("src/lib.rs")) {
            Ok(found) => {
                if name == "planner/kinds" {
                    problems.extend(rules::arrows_between_kinds(&found));
                }
                problems.extend(rules::circles(&found));
            }
            Err(error) => problems.push(format!("{name}: its sources can't be read: {error}")),
        }
    }
    problems.iter().for_each(|problem| println!("{problem}"));
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
