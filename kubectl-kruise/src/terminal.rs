//! The standard output: text for pipes, and on a terminal a block that takes the place of the one before, and colours.

use std::fmt;
use std::io::{self, IsTerminal, Write};

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

/// When output is coloured. Colours only repeat what the text says.
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
        match self.color {
            _ if self.no_color => false,
            Colour::Auto => draws(),
            Colour::Always => true,
            Colour::Never => false,
        }
    }
}

/// Whether escape sequences may be written: the standard output is a terminal that knows them, and nobody asked for plain
/// text.
pub(super) fn draws() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

/// Nobody reads the standard output any more.
#[derive(Debug)]
pub(super) struct OutputClosed;

impl fmt::Display for OutputClosed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the standard output is closed")
    }
}

impl std::error::Error for OutputClosed {}

/// Writes to the standard output, at once.
pub(super) fn print(text: impl fmt::Display) -> anyhow::Result<()> {
    let mut output = io::stdout().lock();
    write!(output, "{text}").and_then(|()| output.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => OutputClosed.into(),
        _ => error.into(),
    })
}

/// Some lines that are drawn again and again.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// How many lines of the last drawing are above the cursor.
    height: usize,
}

impl Block {
    /// Draws the lines in the place of those before, each on one line of the terminal.
    pub(super) fn draw(&mut self, lines: &[String]) -> anyhow::Result<()> {
        // A terminal may say that it has no size.
        let width = tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
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
        print(text)
    }
}
