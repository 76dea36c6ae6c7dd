//! What GPU and NPU did for the worker, by the accounts that DRM drivers keep for each open device
//! (Linux, Documentation/gpu/drm-usage-stats.rst).
//!
//! A worker opens its device long after it was started, and only then it is known which engines the driver
//! has: those channels get their names while it runs.

use std::sync::Arc;

use edgedyno_shared::telemetry::{ChannelKind, Fidelity, Quality};

use super::board::Board;
use super::fault::Fault;
use super::files::{Files, Kept, Numbers};
use super::labels::Labels;
use super::offer::{Found, Offer, Spec, Tier};
use super::watch::Readings;
use super::{Sampler, Source, text};

/// Open files of the worker that are looked at, and accounts that are kept.
const MOST_FILES: usize = 256;
const MOST_ACCOUNTS: usize = 64;

/// Engines and regions of memory with a channel of their own; more are in the sums only.
const ENGINES: usize = 8;
const REGIONS: usize = 4;

/// Bytes that an account never fills.
const ROOM: usize = 4096;

const BUSY: Offer = Offer {
    name: "worker.drm.busy",
    unit: "ns",
    kind: ChannelKind::Counter,
    fidelity: Fidelity::Measured,
    native_period: None,
    source: "/proc/PID/fdinfo/* drm-engine-*",
    rights: "the worker's user",
    boards: "GPUs and NPUs with a DRM driver that counts time: amdgpu, i915, msm, panfrost, panthor, v3d and others; xe counts cycles only",
    meaning: "Time in which engines worked for the worker, all engines together: more than a second a second where several do. It has no value where the driver of a device that the worker opened counts none.",
};

const MEMORY: Offer = Offer {
    name: "worker.drm.memory",
    unit: "bytes",
    kind: ChannelKind::Gauge,
    source: "/proc/PID/fdinfo/* drm-resident-*, on older kernels drm-memory-*",
    boards: "GPUs and NPUs with a DRM driver that tells it",
    meaning: "Memory that the worker's buffers have on the device, or of the board's where both are one. It has no value until the worker opens a device whose driver tells it.",
    ..BUSY
};

const ENGINE: Offer = Offer {
    name: "worker.drm.DRIVER.ENGINE.busy",
    meaning: "Time in which that engine worked for the worker.",
    ..BUSY
};

const REGION: Offer = Offer {
    name: "worker.drm.DRIVER.REGION.memory",
    meaning: "Memory of that region that the worker's buffers have.",
    ..MEMORY
};

pub(super) struct Drm;

impl Sampler for Drm {
    fn name(&self) -> &'static str {
        "drm"
    }

    fn offers(&self) -> &'static [Offer] {
        &[BUSY, MEMORY, ENGINE, REGION]
    }

    fn find(&self, board: &Board) -> Vec<Found> {
        let Some(worker) = board.worker else {
            return vec![BUSY.absent("no worker runs")];
        };
        let has_device = board.entries("sys/class/drm", "renderD").is_ok()
            || board.entries("sys/class/accel", "accel").is_ok();
        if !has_device {
            return vec![BUSY.absent("there is no GPU or NPU with a DRM driver")];
        }
        let folder = format!("proc/{worker}/fdinfo");
        let source = format!("/{folder}/*");
        let unnamed = |offer: &Offer| Spec {
            name: String::new(),
            ..offer.spec("", &source)
        };
        let mut specs = vec![
            BUSY.spec(BUSY.name, &source),
            MEMORY.spec(MEMORY.name, &source),
        ];
        specs.extend((0..ENGINES).map(|_| unnamed(&ENGINE)));
        specs.extend((0..REGIONS).map(|_| unnamed(&REGION)));
        let numbers = board.files.numbers(&folder);
        let clients = Clients {
            files: Arc::clone(&board.files),
            numbers: numbers.map_err(|why| Fault::from(&why)),
            folder,
            open: Vec::with_capacity(MOST_FILES),
            accounts: Vec::with_capacity(MOST_ACCOUNTS),
            engines: Labels::new(ENGINES, "worker.drm", "busy"),
            regions: Labels::new(REGIONS, "worker.drm", "memory"),
        };
        vec![Found::new(Tier::Slow, specs, clients)]
    }
}

struct Clients {
    files: Arc<dyn Files>,
    numbers: Result<Box<dyn Numbers>, Fault>,
    folder: String,
    open: Vec<Open>,
    accounts: Vec<Account>,
    engines: Labels,
    regions: Labels,
}

/// A descriptor of the worker and the file that tells of it.
struct Open {
    number: u32,
    file: Option<Kept>,
    is_listed: bool,
}

/// What one opening of a device came to. Several descriptors may lead to it.
struct Account {
    client: i64,
    is_seen: bool,
    /// Whether the driver tells any engine's time, and whether any memory.
    counts_time: bool,
    tells_memory: bool,
    busy: i64,
    memory: i64,
    engines: [i64; ENGINES],
    regions: [i64; REGIONS],
}

impl Clients {
    /// Looks at every descriptor. What is opened for a new one allocates; there is none in a window, where
    /// runtimes have opened what they need. A descriptor that could not be looked at may be a device's.
    fn look(&mut self) -> Result<(), Fault> {
        const TOO_MANY: Fault = Fault::absent("the worker has more files open than are looked at");
        let mut unseen = None;
        let numbers = self.numbers.as_mut().map_err(|fault| *fault)?;
        let open = &mut self.open;
        open.iter_mut().for_each(|each| each.is_listed = false);
        let listed = numbers.each(&mut |number| {
            let known = open.iter().position(|each| each.number == number);
            match known {
                Some(at) => open[at].is_listed = true,
                None if open.len() < MOST_FILES => open.push(Open {
                    number,
                    file: None,
                    is_listed: true,
                }),
                None => unseen = Some(TOO_MANY),
            }
        });
        listed.map_err(|why| Fault::from(&why))?;
        open.retain(|each| each.is_listed);
        for account in &mut self.accounts {
            account.is_seen = false;
            // What a closed device had is free again; the time it worked stays worked.
            account.memory = 0;
            account.regions = [0; REGIONS];
        }
        for each in &mut self.open {
            let file = each.file.get_or_insert_with(|| {
                let path = format!("{}/{}", self.folder, each.number);
                Kept::open(&*self.files, &path, ROOM)
            });
            match file.text() {
                Ok(held) => take_account(
                    held,
                    each.number,
                    &mut self.accounts,
                    &mut self.engines,
                    &mut self.regions,
                ),
                Err(fault) => {
                    // Closed meanwhile, or another's by now.
                    each.file = None;
                    if fault.quality == Quality::Denied {
                        unseen = Some(fault);
                    }
                }
            }
        }
        unseen.map_or(Ok(()), Err)
    }
}

impl Source for Clients {
    fn read(&mut self, out: &mut Readings<'_>) {
        const NONE_YET: Fault = Fault::new(
            Quality::Busy,
            "the worker has opened no device with a DRM driver",
        );
        const NO_TIME: Fault = Fault::absent("the device's driver tells no engine's time");
        const NO_MEMORY: Fault = Fault::absent("the device's driver tells no memory");
        if let Err(fault) = out.timed(|| self.look()) {
            out.put(0, Err(fault));
            return out.put(1, Err(fault));
        }
        let sum = |of: fn(&Account) -> i64| {
            let all = self.accounts.iter().map(of);
            all.fold(0_i64, i64::saturating_add)
        };
        // A sum of which a part is not told is none. Before anything is opened no engine worked.
        let counts_time = self.accounts.iter().all(|a| a.counts_time);
        let tells_memory = |a: &Account| a.tells_memory || !a.is_seen;
        let memory = match self.accounts.is_empty() {
            true => Err(NONE_YET),
            false if self.accounts.iter().all(tells_memory) => Ok(sum(|a| a.memory)),
            false => Err(NO_MEMORY),
        };
        let busy = counts_time.then(|| sum(|a| a.busy));
        out.put(0, busy.ok_or(NO_TIME));
        out.put(1, memory);
        for slot in 0..self.engines.len() {
            let of_slot = self.accounts.iter().map(|a| a.engines[slot]);
            out.put(2 + slot, Ok(of_slot.fold(0, i64::saturating_add)));
        }
        for slot in 0..self.regions.len() {
            let of_slot = self.accounts.iter().map(|a| a.regions[slot]);
            out.put(2 + ENGINES + slot, Ok(of_slot.fold(0, i64::saturating_add)));
        }
    }

    fn new_name(&mut self) -> Option<(usize, &str)> {
        if self.engines.has_untold() {
            let (slot, name) = self.engines.tell()?;
            return Some((2 + slot, name));
        }
        let (slot, name) = self.regions.tell()?;
        Some((2 + ENGINES + slot, name))
    }
}

/// Takes in what one descriptor's file tells, once for each client.
fn take_account(
    held: &[u8],
    number: u32,
    accounts: &mut Vec<Account>,
    engines: &mut Labels,
    regions: &mut Labels,
) {
    let Some(driver) = text::after(held, b"drm-driver:").map(<[u8]>::trim_ascii) else {
        return;
    };
    // Older kernels number no clients: each descriptor is then taken for one.
    let client = text::figure(held, b"drm-client-id:").unwrap_or(-1 - i64::from(number));
    let at = accounts.iter().position(|account| account.client == client);
    let at = match at {
        Some(at) => at,
        None if accounts.len() < MOST_ACCOUNTS => {
            accounts.push(Account {
                client,
                is_seen: false,
                counts_time: false,
                tells_memory: false,
                busy: 0,
                memory: 0,
                engines: [0; ENGINES],
                regions: [0; REGIONS],
            });
            accounts.len() - 1
        }
        None => return,
    };
    let account = &mut accounts[at];
    if std::mem::replace(&mut account.is_seen, true) {
        return;
    }
    let mut busy = 0_i64;
    let is_new = text::lines(held).any(|line| line.starts_with(b"drm-resident-"));
    for line in text::lines(held) {
        if let Some((engine, time)) = entry(line, b"drm-engine-") {
            // `drm-engine-capacity-NAME` is how many there are of one.
            if engine.starts_with(b"capacity-") {
                continue;
            }
            account.counts_time = true;
            busy = busy.saturating_add(time);
            if let Some(slot) = engines.slot(&[driver, engine]) {
                account.engines[slot] = account.engines[slot].max(time);
            }
        }
        let key: &[u8] = if is_new {
            b"drm-resident-"
        } else {
            b"drm-memory-"
        };
        if let Some((region, bytes)) = entry(line, key) {
            account.tells_memory = true;
            account.memory = account.memory.saturating_add(bytes);
            if let Some(slot) = regions.slot(&[driver, region]) {
                account.regions[slot] = bytes;
            }
        }
    }
    account.busy = account.busy.max(busy);
}

/// The rest of a key and its figure in base units: `drm-engine-render: 12 ns`, `drm-memory-vram: 4 KiB`.
fn entry<'a>(line: &'a [u8], key: &[u8]) -> Option<(&'a [u8], i64)> {
    let rest = line.strip_prefix(key)?;
    let colon = rest.iter().position(|byte| *byte == b':')?;
    let (name, value) = (&rest[..colon], &rest[colon + 1..]);
    let mut words = text::words(value);
    let value = text::number(words.next()?.trim_ascii())?;
    let scale = match words.next().map(<[u8]>::trim_ascii) {
        Some(b"KiB") => 1 << 10,
        Some(b"MiB") => 1 << 20,
        Some(b"GiB") => 1 << 30,
        _ => 1,
    };
    Some((name, value.checked_mul(scale)?))
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;
    use proptest::prelude::*;

    use super::*;
    use crate::sampler::testing::Tree;

    const AMD: &str = "pos:\t0\nflags:\t02100002\ndrm-driver:\tamdgpu\ndrm-client-id:\t11\ndrm-pdev:\t0000:03:00.0\ndrm-memory-vram:\t2048 KiB\ndrm-memory-gtt:\t1 MiB\ndrm-engine-gfx:\t1000 ns\ndrm-engine-capacity-gfx:\t1\ndrm-engine-compute:\t500 ns\n";

    fn tree() -> Tree {
        Tree::with(&[
            ("sys/class/drm/renderD128/dev", "226:128\n"),
            ("proc/42/fdinfo/0", "pos:\t0\nflags:\t0100002\n"),
        ])
    }

    #[test]
    fn a_device_opened_later_gives_its_engines_their_names() {
        let tree = tree();
        let mut watch = tree.watch(&Drm);
        let before = watch.again();
        assert_eq!(before["worker.drm.busy"], Ok(0), "no engine worked for it");
        let memory = before["worker.drm.memory"].unwrap_err();
        assert_eq!(memory.quality, Quality::Busy);
        assert_eq!(
            before.keys().filter(|name| name.contains("amdgpu")).count(),
            0
        );
        // The same client by two descriptors counts once.
        tree.set("proc/42/fdinfo/7", AMD);
        tree.set("proc/42/fdinfo/9", AMD);
        let opened = watch.again();
        assert_eq!(opened["worker.drm.busy"], Ok(1500));
        assert_eq!(opened["worker.drm.amdgpu.gfx.busy"], Ok(1000));
        assert_eq!(opened["worker.drm.amdgpu.compute.busy"], Ok(500));
        assert_eq!(opened["worker.drm.memory"], Ok(3 << 20));
        assert_eq!(opened["worker.drm.amdgpu.vram.memory"], Ok(2 << 20));
        assert_eq!(opened["worker.drm.amdgpu.gtt.memory"], Ok(1 << 20));
        // Closed: its memory is free, the time stays, and another client's comes on top.
        for file in ["proc/42/fdinfo/7", "proc/42/fdinfo/9"] {
            tree.set(file, "pos:\t0\n");
        }
        let other = AMD
            .replace("client-id:\t11", "client-id:\t12")
            .replace("1000 ns", "40 ns");
        tree.set("proc/42/fdinfo/8", &other);
        let closed = watch.again();
        assert_eq!(closed["worker.drm.busy"], Ok(1500 + 540));
        assert_eq!(closed["worker.drm.amdgpu.gfx.busy"], Ok(1040));
        assert_eq!(closed["worker.drm.memory"], Ok(3 << 20));
    }

    #[test]
    fn a_newer_kernel_tells_what_is_resident() {
        let tree = tree();
        tree.set(
            "proc/42/fdinfo/3",
            "drm-driver:\tpanthor\ndrm-client-id:\t4\ndrm-engine-panthor:\t77 ns\ndrm-cycles-panthor:\t9\ndrm-total-memory:\t9 MiB\ndrm-resident-memory:\t8 MiB\ndrm-memory-memory:\t8 MiB\n",
        );
        let readings = tree.watch(&Drm).again();
        assert_eq!(readings["worker.drm.memory"], Ok(8 << 20));
        assert_eq!(readings["worker.drm.panthor.panthor.busy"], Ok(77));
    }

    #[test]
    fn what_no_driver_tells_is_absent_and_not_zero() {
        let client = "drm-driver:\trknpu\ndrm-client-id:\t4\n";
        let told = |lines: &str| {
            let tree = tree();
            tree.set("proc/42/fdinfo/3", &format!("{client}{lines}"));
            let readings = tree.watch(&Drm).again();
            ["worker.drm.busy", "worker.drm.memory"].map(|name| readings[name].ok())
        };
        assert_eq!(told(""), [None, None]);
        assert_eq!(told("drm-engine-npu:\t9 ns\n"), [Some(9), None]);
        assert_eq!(told("drm-memory-dma:\t2 KiB\n"), [None, Some(2048)]);
        assert_eq!(told("drm-memory-dma:\t0\n"), [None, Some(0)]);
        // Beside one that tells, one that does not: what the two come to nobody knows.
        let tree = tree();
        tree.set("proc/42/fdinfo/3", client);
        tree.set("proc/42/fdinfo/7", AMD);
        let both = tree.watch(&Drm).again();
        for name in ["worker.drm.busy", "worker.drm.memory"] {
            assert_eq!(both[name].unwrap_err().quality, Quality::Absent, "{name}");
        }
        assert_eq!(both["worker.drm.amdgpu.gfx.busy"], Ok(1000));
    }

    #[test]
    fn a_descriptor_that_cannot_be_looked_at_leaves_the_sums_unknown() {
        let tree = tree();
        tree.set("proc/42/fdinfo/7", AMD);
        let path = "proc/42/fdinfo/0";
        let (mut watch, _) = tree.watch_answering(&Drm, path, Errno::EACCES);
        let denied = watch.again();
        for name in ["worker.drm.busy", "worker.drm.memory"] {
            assert_eq!(denied[name].unwrap_err().quality, Quality::Denied);
        }
        let mut watch = tree.watch(&Drm);
        assert_eq!(watch.again()["worker.drm.busy"], Ok(1500));
        for number in 100..100 + MOST_FILES {
            tree.set(&format!("proc/42/fdinfo/{number}"), "pos:\t0\n");
        }
        let many = watch.again();
        assert_eq!(
            many["worker.drm.memory"].unwrap_err().quality,
            Quality::Absent
        );
    }

    #[test]
    fn a_board_without_such_a_driver_says_so() {
        let readings = Tree::with(&[]).watch(&Drm);
        let (channel, last) = readings.watch.latest().next().unwrap();
        assert!(last.is_none() && channel.probe.reason().unwrap().contains("DRM"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(held: Vec<u8>, name in "[a-z-]{0,9}", value in "[0-9]{0,25}") {
            let (mut engines, mut regions) = (Labels::new(2, "x", "busy"), Labels::new(2, "x", "memory"));
            let mut accounts = Vec::new();
            let line = format!("drm-driver:\tx\ndrm-engine-{name}:\t{value} ns\ndrm-memory-{name}: {value} GiB\n");
            for text in [&held[..], line.as_bytes()] {
                take_account(text, 1, &mut accounts, &mut engines, &mut regions);
            }
        }
    }
}
