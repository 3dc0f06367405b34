//! The figures as Markdown, and what we set out to reach.

use harness::watched::Seen;
use harness::{Goal, Page, median, number, table};

use crate::changes::{Change, Counted, Loaded, ROUNDS, Round};
use crate::programs::{OF_THE_GOAL, Run};
use crate::proxy::Work;
use crate::{Cold, Results, Size};

const GROWTH: f64 = 1.5;

pub(crate) fn of(results: &Results) -> Page {
    let Results { sizes, loaded, .. } = results;
    Page::new(machine(results))
        .goals("Goals", &goals(results))
        .section(
            "Cold load: facts in memory → in force",
            cold(sizes),
            "Medians of the runs. CPU is that of portway, user + system, and of the iptables programs that it starts. RSS is that of the whole \
             process afterwards, facts included, and at most.",
        )
        .section(
            "What a cold load is made of",
            interfaces(sizes),
            "Requests of ours, and how long each door was in use. *Rules* are runs of `iptables-restore` and `iptables-save`.",
        )
        .section(
            "The yardstick: the same state, loaded by programs from text",
            programs(sizes),
            "*Portway* is its whole cold load over that of the programs so far, each pair in turn. The goal speaks of the first two. \
             Making the texts is not counted.",
        )
        .section(
            "One change: event → in force",
            changes(&loaded.changes),
            format!(
                "Medians of {ROUNDS} changes, the sizes in turn in one process. Requests are to virtual servers + sets + addresses. Datagrams and \
                 bytes are those of both ways, as the kernel counts them (`nlmon`), in changes apart. *Settling* removes, seconds later, \
                 endpoints that no connection holds any more: a listing of one virtual server and one request."
            ),
        )
        .section("Growth of one change", growth(loaded), "")
        .section(
            "What of it is the kernel's: one address, put on the interface or taken off by one request",
            floors(loaded),
            "",
        )
        .section(
            "Everything read back and compared, which happens from time to time",
            comparisons(&loaded.comparisons),
            "",
        )
}

fn time(ms: f64) -> String {
    harness::time(ms * 1e3, 1, 2)
}

/// The same of microseconds; where nothing happened there is nothing to tell.
fn us(us: f64) -> String {
    if us < 1.0 { "–".into() } else { time(us / 1e3) }
}

#[expect(clippy::cast_precision_loss, reason = "a number of bytes, rounded anyway")]
fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes < 10_000 => format!("{} B", number(bytes)),
        bytes if bytes < 1 << 20 => format!("{:.0} KiB", bytes as f64 / 1024.0),
        bytes => format!("{:.1} MiB", bytes as f64 / 1024.0 / 1024.0),
    }
}

fn machine(results: &Results) -> String {
    let machine = &results.machine;
    format!(
        "Measured on {}: a VM (Linux {}, 2 cores, software emulation, which computes about 20 times slower) on {} cores ({}); {}, portway {}; \
         load average of the machine before the run {:.1}{}.\n\
         So times are for comparing with each other, on this page and in this section alone.\n\
         Four endpoints per service, IPv4 and IPv6 served, all in network namespaces of the benchmark's own.",
        machine.date,
        results.kernel,
        machine.cores,
        machine.processor,
        results.versions,
        machine.portway,
        machine.load_before,
        if machine.is_calm() { "" } else { ": other work shared the cores" }
    )
}

fn goals(results: &Results) -> Vec<Goal> {
    let cold = results.sizes.iter().map(|size| {
        let ratio = size.wall_ratio(OF_THE_GOAL);
        let services = number(size.services);
        let goal = format!("cold load of {services} services no slower than `ipset restore` + `ipvsadm -R`");
        Goal::new(goal, ratio.whole(2, " ×"), ratio.median <= 1.0)
    });
    let growth = results.loaded.ends().into_iter().map(|(least, most)| {
        let ratios = ratios(least, most);
        let [messages, bytes, cpu] = ratios;
        let (name, from, to) = (&least.name, number(least.services), number(most.services));
        Goal::new(
            format!("{name}: grows {GROWTH} × at most from {from} to {to} services"),
            format!("messages {messages:.2} ×, bytes {bytes:.2} ×, CPU {cpu:.2} ×"),
            ratios.iter().all(|ratio| *ratio <= GROWTH),
        )
    });
    cold.chain(growth).chain([no_listing(&results.loaded.changes)]).collect()
}

/// What growth is made of.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn ratios(least: &Change, most: &Change) -> [f64; 3] {
    let of = |figure: fn(&Counted) -> u64| figure(most.most()) as f64 / figure(least.most()) as f64;
    [of(Counted::messages), of(Counted::bytes), most.cpu_us() / least.cpu_us()]
}

fn no_listing(changes: &[Change]) -> Goal {
    let works = || changes.iter().flat_map(|change| &change.counted).map(|counted| counted.change.0);
    let listings: u64 = works().map(|work| work.listings()).sum();
    let restores: u64 = works().map(|work| work.rules.writes).sum();
    Goal::new(
        "one change lists nothing that the kernel holds, and starts no program",
        format!("{listings} listings, {restores} restores in {} changes", works().count()),
        listings + restores == 0,
    )
}

fn cold(sizes: &[Size]) -> String {
    let median = |one: &Size, figure: fn(&Cold) -> f64| time(one.cold(figure).median);
    table(sizes).columns(&[
        ("services", &|one| number(one.services)),
        ("wall", &|one| median(one, |cold| cold.work.whole_ms)),
        ("spread", &|one| one.cold(|cold| cold.work.whole_ms).range(time)),
        ("CPU", &|one| {
            format!("{} + {}", median(one, |cold| cold.user_ms), median(one, |cold| cold.system_ms))
        }),
        ("CPU of programs", &|one| median(one, |cold| cold.programs_ms)),
        ("requests", &|one| number(one.counted.work.messages())),
        ("datagrams", &|one| number(one.counted.traffic.datagrams)),
        ("bytes", &|one| size(one.counted.traffic.bytes)),
        ("RSS", &|one| {
            let (rss, peak) = (one.cold(|cold| cold.rss_mib).median, one.cold(|cold| cold.rss_peak_mib).most);
            format!("{rss:.0}, {peak:.0} MiB")
        }),
    ])
}

fn interfaces(sizes: &[Size]) -> String {
    let of = |one: &Size, interface: fn(&Work) -> Seen| {
        let Seen { writes, listings, .. } = interface(&one.counted.work);
        let ms = one.cold(|cold| interface(&cold.work).ms).median;
        format!("{} + {}, {}", number(writes), number(listings), time(ms))
    };
    table(sizes).columns(&[
        ("services", &|one| number(one.services)),
        ("table", &|one| time(one.cold(|cold| cold.work.table_ms).median)),
        ("virtual servers: writes + listings", &|one| of(one, |work| work.servers)),
        ("sets", &|one| of(one, |work| work.sets)),
        ("addresses", &|one| of(one, |work| work.addresses)),
        ("rules", &|one| of(one, |work| work.rules)),
    ])
}

fn programs(sizes: &[Size]) -> String {
    let of_size = |one| move |(at, run)| (one, at, run);
    let rows: Vec<(&Size, usize, &Run)> =
        sizes.iter().flat_map(|one| one.programs_counted.iter().enumerate().map(of_size(one))).collect();
    let of = |one: &Size, at: usize, figure: fn(&Run) -> f64| {
        time(median(one.programs.iter().filter_map(|runs| runs.get(at)).map(figure)))
    };
    let so_far = |at: usize, ratio: fn(&Size, usize) -> harness::Spread, one: &Size| match at + 1 {
        programs if programs < OF_THE_GOAL => "–".into(),
        programs => format!("{:.2}", ratio(one, programs).median),
    };
    table(&rows).columns(&[
        ("program", &|(.., run)| format!("`{}`", run.program)),
        ("services", &|(one, ..)| number(one.services)),
        ("lines", &|(.., run)| number(run.lines as u64)),
        ("wall", &|(one, at, _)| of(one, *at, |run| run.ms)),
        ("CPU", &|(one, at, _)| of(one, *at, |run| run.cpu_ms)),
        ("datagrams", &|(.., run)| number(run.traffic.unwrap_or_default().datagrams)),
        ("bytes", &|(.., run)| size(run.traffic.unwrap_or_default().bytes)),
        ("portway ÷ programs so far", &|(one, at, _)| so_far(*at, Size::wall_ratio, one)),
        ("the same of CPU", &|(one, at, _)| so_far(*at, Size::cpu_ratio, one)),
    ])
}

fn changes(changes: &[Change]) -> String {
    let of = |change: &Change, figure: fn(&Round) -> f64| us(change.spread(figure).median);
    let work = |change: &Change| change.most().change.0;
    let traffic = |change: &Change| change.most().change.1;
    table(changes).columns(&[
        ("change", &|change| change.name.clone()),
        ("services", &|change| number(change.services)),
        ("p50", &|change| of(change, |round| round.whole_us)),
        ("of it table", &|change| of(change, |round| round.table_us)),
        ("servers", &|change| of(change, |round| round.servers_us)),
        ("sets", &|change| of(change, |round| round.sets_us)),
        ("addresses", &|change| of(change, |round| round.addresses_us)),
        ("CPU", &|change| of(change, |round| round.cpu_us)),
        ("CPU of settling", &|change| of(change, |round| round.settle_cpu_us)),
        ("requests", &|change| {
            let Work { servers, sets, addresses, .. } = work(change);
            format!("{} + {} + {}", servers.writes, sets.writes, addresses.writes)
        }),
        ("datagrams", &|change| number(traffic(change).datagrams)),
        ("bytes", &|change| size(traffic(change).bytes)),
        ("listings", &|change| number(work(change).listings())),
        ("restores", &|change| number(work(change).rules.writes)),
    ])
}

fn growth(loaded: &Loaded) -> String {
    let ratio = |(least, most): &(&Change, &Change), figure: fn(&Round) -> f64| {
        let (before, after) = (least.spread(figure).median, most.spread(figure).median);
        if before > 0.0 { format!("{:.2} ×", after / before) } else { "–".into() }
    };
    let counted = |(least, most): &(&Change, &Change), at: usize| format!("{:.2} ×", ratios(least, most)[at]);
    table(&loaded.ends()).columns(&[
        ("change", &|(least, _)| least.name.clone()),
        ("requests", &|ends| counted(ends, 0)),
        ("bytes", &|ends| counted(ends, 1)),
        ("CPU", &|ends| counted(ends, 2)),
        ("wall", &|ends| ratio(ends, |round| round.whole_us)),
        ("of it table", &|ends| ratio(ends, |round| round.table_us)),
        ("servers", &|ends| ratio(ends, |round| round.servers_us)),
        ("sets", &|ends| ratio(ends, |round| round.sets_us)),
        ("addresses", &|ends| ratio(ends, |round| round.addresses_us)),
    ])
}

fn floors(loaded: &Loaded) -> String {
    let with_floor = |(least, most): (&Change, &Change)| {
        let floor = loaded.floor(&least.name)?;
        Some((least.name.clone(), (least.cpu_us(), most.cpu_us()), floor))
    };
    let rows: Vec<_> = loaded.ends().into_iter().filter_map(with_floor).collect();
    table(&rows).columns(&[
        ("change", &|(name, ..)| name.clone()),
        ("CPU", &|(_, cpu, _)| format!("{} → {}", us(cpu.0), us(cpu.1))),
        ("of it the bare address", &|(.., floor)| format!("{} → {}", us(floor.0), us(floor.1))),
        ("which grows", &|(.., floor)| format!("{:.2} ×", floor.1 / floor.0)),
        ("the rest grows", &|(_, cpu, floor)| format!("{:.2} ×", (cpu.1 - floor.1) / (cpu.0 - floor.0))),
    ])
}

fn comparisons(comparisons: &[(u32, Work)]) -> String {
    table(comparisons).columns(&[
        ("services", &|(services, _)| number(*services)),
        ("wall", &|(_, work)| time(work.whole_ms)),
        ("listings of servers", &|(_, work)| number(work.servers.listings)),
        ("of sets", &|(_, work)| number(work.sets.listings)),
        ("of links and addresses", &|(_, work)| number(work.addresses.listings)),
        ("of rules", &|(_, work)| number(work.rules.listings)),
    ])
}
