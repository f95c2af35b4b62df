//! `roce-pcap man`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::{Cli, Outcome};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The command whose page to print, such as decode; without it, that of roce-pcap itself
    command: Option<String>,
    /// Write the whole set of pages to this folder instead
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    to: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> io::Result<Outcome> {
    let mut root = Cli::command();
    root.build();
    if let Some(folder) = &args.to {
        return match write_all(&root, folder) {
            Ok(pages) => {
                writeln!(out, "{pages} pages in {}", folder.display())?;
                Ok(Outcome::Clean)
            }
            Err(error) => {
                eprintln!("roce-pcap: {}: {error}", folder.display());
                Ok(Outcome::Unusable)
            }
        };
    }
    let Some(name) = &args.command else {
        page(&root).render(out)?;
        return Ok(Outcome::Clean);
    };
    match root.find_subcommand(name) {
        Some(command) => {
            page(command).render(out)?;
            Ok(Outcome::Clean)
        }
        None => {
            eprintln!("roce-pcap: there is no command {name}: `roce-pcap help` lists all of them");
            Ok(Outcome::Unusable)
        }
    }
}

/// The page of the program and one for each command; says how many.
fn write_all(root: &Command, folder: &Path) -> io::Result<usize> {
    std::fs::create_dir_all(folder)?;
    let mut pages = 0;
    let commands = root.get_subcommands().filter(|command| command.get_name() != "help");
    for command in [root].into_iter().chain(commands) {
        let man = page(command);
        let mut text = Vec::new();
        man.render(&mut text)?;
        std::fs::write(folder.join(man.get_filename()), text)?;
        pages += 1;
    }
    Ok(pages)
}

fn page(command: &Command) -> Man {
    Man::new(command.clone()).manual("roce-pcap manual")
}
