//! `board`: which boards there are, and how this host comes to know one.

use clap::{Args, Subcommand};
use edgedyno_shared::link::ticket::Ticket;

mod add;
mod doctor;
mod remove;
mod steps;
mod waiting;

pub(super) use add::failed;

use super::run::inventory::{Inquiry, find_board};
use crate::board::known::{KnownBoard, KnownBoards};
use crate::board::settings::{Settings, SettingsError, own_name};
use crate::board::{ConnectError, local, quic};
use crate::cli::Global;
use crate::cmd::block_on;
use crate::documents;
use crate::drive::DriveError;
use crate::exit::{CommandError, CommandResult, Exit};
use crate::ui::{self, print};

const EXAMPLES: &str = "\
examples:
  edgedyno board add ssh://sunrise@192.168.7.5 --name x5    brings the agent there by ssh
  edgedyno board doctor x5                   which link of the chain is broken, and what mends it
  edgedyno board pair TICKET --name s100     without ssh: the ticket comes from `edgedyno-agent pair` on the board
  edgedyno run model.onnx --board s100
  edgedyno board list";

const PAIR_EXAMPLES: &str = "\
examples:
  edgedyno board pair edyn1/192.168.7.5:7447/ptjz... --name s100
  ssh s100 edgedyno-agent pair | xargs edgedyno board pair --name s100";

#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct BoardArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Subcommand)]
enum What {
    /// Bring the agent to a board by ssh, and come to know it
    #[command(after_help = add::ADD_EXAMPLES)]
    Add(add::AddArgs),
    /// Boards that this host knows
    #[command(after_help = "example:\n  edgedyno board list --json")]
    List,
    /// Come to know a board by a ticket that its agent gave out
    #[command(after_help = PAIR_EXAMPLES)]
    Pair {
        /// What `edgedyno-agent pair` printed, within the time said there; it is good once
        ticket: String,
        /// What to call the board
        #[arg(long, value_name = "NAME")]
        name: String,
        /// Replace a board of that name
        #[arg(long)]
        force: bool,
    },
    /// What a board is, who measures on it, and whose results wait there
    #[command(after_help = "example:\n  edgedyno board info s100")]
    Info {
        /// The board
        name: String,
        #[command(flatten)]
        waiting: waiting::WaitingArgs,
    },
    /// Which link of the chain to a board is broken, and what mends it
    #[command(after_help = doctor::EXAMPLES)]
    Doctor {
        /// The board
        #[arg(default_value = local::NAME)]
        name: String,
    },
    /// Bring a newer agent to a board by ssh; a running repeat is not disturbed
    #[command(after_help = add::UPDATE_EXAMPLES)]
    Update(add::UpdateArgs),
    /// Take everything off a board that was brought there, and the board off the list
    #[command(after_help = remove::EXAMPLES)]
    Remove(remove::RemoveArgs),
    /// Take a board off the list; on the board nothing changes
    #[command(after_help = "example:\n  edgedyno board forget s100")]
    Forget {
        /// The board
        name: String,
    },
}

/// Runs `board`.
pub fn run(args: &BoardArgs, global: &Global) -> CommandResult {
    let settings = Settings::from_env()?;
    match &args.what {
        What::Add(args) => add::add(args, &settings, global.json),
        What::Doctor { name } => doctor::run(name, &settings, global.json),
        What::Update(args) => add::update(args, &settings, global.json),
        What::Remove(args) => remove::run(args, &settings, global.json),
        What::List => list(&settings, global.json),
        What::Pair {
            ticket,
            name,
            force,
        } => pair(&settings, ticket, name, *force, global.json),
        What::Info { name, waiting } => info(name, waiting, global.json),
        What::Forget { name } => forget(&settings, name, global.json),
    }
}

fn list(settings: &Settings, json: bool) -> CommandResult {
    let boards = KnownBoards::read(settings)?;
    if json {
        print::json(&documents::board_list(boards.iter()));
        return Ok(Exit::GOOD);
    }
    print::result(ui::board::list(boards.iter()));
    Ok(Exit::GOOD)
}

fn info(name: &str, args: &waiting::WaitingArgs, json: bool) -> CommandResult {
    let board = find_board(name)?;
    let (device, lease, (waiting, dropped)) = block_on(async {
        let mut inquiry = Inquiry::open(&board).await?;
        let looked = waiting::look(&mut inquiry, args).await?;
        Ok((inquiry.device().await?, inquiry.lease().await?, looked))
    })?;
    match json {
        true => {
            let results = documents::Results {
                waiting: &waiting,
                dropped: dropped.as_ref(),
            };
            print::json(&documents::board(name, &device, &lease, &results));
        }
        false => {
            print::result(ui::board::info(name, &device, &lease));
            ui::waiting::lines(name, &waiting)
                .into_iter()
                .for_each(print::result);
        }
    }
    Ok(Exit::GOOD)
}

fn pair(settings: &Settings, ticket: &str, name: &str, force: bool, json: bool) -> CommandResult {
    let ticket: Ticket = ticket.parse().map_err(|why| {
        CommandError::usage(format!("{why}"))
            .hint("give it as `edgedyno-agent pair` on the board printed it")
    })?;
    KnownBoards::check_name(name)?;
    check_free(&KnownBoards::read(settings)?, name, force)?;
    let connect = |source: ConnectError| {
        let board = name.to_owned();
        CommandError::from(DriveError::Connect { board, source })
    };
    let identity = settings.identity().map_err(|why| connect(why.into()))?;
    let paired = block_on(async {
        let paired = quic::pair(&ticket, &identity, &own_name()).await;
        paired.map_err(connect)
    })?;
    KnownBoards::change(settings, |boards| {
        check_free(boards, name, force)?;
        Ok::<_, CommandError>(boards.add(name, paired.board.clone())?)
    })?;
    if json {
        print::json(&documents::boards([(name, &paired.board)].into_iter()));
    } else {
        print::result(paired_text(name, &paired));
    }
    Ok(Exit::GOOD)
}

fn check_free(boards: &KnownBoards, name: &str, force: bool) -> Result<(), CommandError> {
    match boards.get(name) {
        Some(_) if !force => Err(
            CommandError::usage(format!("there is a board `{name}` already"))
                .hint("choose another name, or replace it with --force"),
        ),
        _ => Ok(()),
    }
}

fn paired_text(name: &str, paired: &quic::Paired) -> String {
    let KnownBoard { addresses, key, .. } = &paired.board;
    let key = key
        .map(|key| key.fingerprint().to_string())
        .unwrap_or_default();
    let address = addresses
        .first()
        .map(ToString::to_string)
        .unwrap_or_default();
    format!(
        "board {name} at {address}, key {}, role {}\nnext: edgedyno run MODEL --board {name}",
        key, paired.role
    )
}

fn forget(settings: &Settings, name: &str, json: bool) -> CommandResult {
    let boards = KnownBoards::change(settings, |boards| match boards.forget(name) {
        true => Ok(boards.clone()),
        false => Err(CommandError::usage(format!("there is no board `{name}`"))
            .hint("`edgedyno board list` shows those that are known; `local` is this machine")),
    })?;
    if json {
        print::json(&documents::boards(boards.iter()));
    } else {
        print::note(format_args!(
            "forgotten; its agent still knows this host until the line is taken out of its list"
        ));
    }
    Ok(Exit::GOOD)
}

impl From<SettingsError> for CommandError {
    fn from(error: SettingsError) -> Self {
        Self::usage("the settings of this user cannot be used")
            .because(error)
            .hint("EDGEDYNO_CONFIG names another folder")
    }
}
