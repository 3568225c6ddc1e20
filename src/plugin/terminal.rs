//! What is drawn on a terminal: a block that takes the place of the one before, and colours where somebody wants them.

use std::io::{IsTerminal, Write};

use clap::{Args, ValueEnum};
use rustix::termios::tcgetwinsize;

/// When something is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Colour {
    /// On a terminal, where NO_COLOR is not set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Whether something is coloured. A colour says nothing that words don't say.
#[derive(Debug, Args)]
pub(super) struct ColourArguments {
    /// When to colour
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    color: Colour,
    /// Never colour
    #[arg(long)]
    no_color: bool,
}

impl ColourArguments {
    pub(super) fn colours(&self) -> bool {
        let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match self.color {
            _ if self.no_color => false,
            Colour::Auto => is_there() && !is_unwanted,
            Colour::Always => true,
            Colour::Never => false,
        }
    }
}

/// The standard output is a terminal.
pub(super) fn is_there() -> bool {
    std::io::stdout().is_terminal()
}

/// Some lines that are drawn again and again.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// How many lines of the last drawing are above the cursor.
    height: usize,
}

impl Block {
    /// Draws the lines in the place of those before, each on one line of the terminal.
    pub(super) fn draw(&mut self, lines: &[String]) -> std::io::Result<()> {
        // A terminal may say that it has no size.
        let width = tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_col));
        let width = if width == 0 { 80 } else { width };
        let mut text = String::new();
        if self.height > 0 {
            text.push_str(&format!("\u{1b}[{}A", self.height));
        }
        text.push_str("\r\u{1b}[J");
        for line in lines {
            let cut: String = line.chars().filter(|letter| !letter.is_control()).take(width).collect();
            text.push_str(&cut);
            text.push('\n');
        }
        self.height = lines.len();
        let mut output = std::io::stdout().lock();
        output.write_all(text.as_bytes())?;
        output.flush()
    }
}
