//! The live view: a table of processes, and what the chosen one does.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Bar, BarChart, BarGroup, Block, List, ListState, Paragraph};
use widelane_tables::{Block as Shown, Kind, Table, count, counted};

use super::Observer;
use super::view::{self, View, WAIT_BOUND_US, rate};
use crate::system;

const KEYS: &str = "q quit   ↑ ↓ choose a process   p pause";

/// Draws until the user quits, or a signal ends it.
pub fn run(observer: &mut Observer, interval: Duration) -> anyhow::Result<()> {
    let stop = system::stop_on_signals()?;
    let mut terminal = ratatui::try_init().context("cannot take over the terminal; try --once")?;
    let outcome = draw_until_quit(&mut terminal, observer, interval, &stop);
    ratatui::restore();
    outcome.context("the terminal is gone")
}

fn draw_until_quit(
    terminal: &mut ratatui::DefaultTerminal,
    observer: &mut Observer,
    interval: Duration,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut screen = Screen::new(observer.look(), observer.directories.words());
    // Soon: the first look is at the few milliseconds since the counters were found.
    let mut next_look = Instant::now() + interval.min(FIRST_INTERVAL_MAX);
    while !stop.load(Ordering::Relaxed) {
        terminal.draw(|frame| screen.draw(frame))?;
        let left = next_look.saturating_duration_since(Instant::now());
        if event::poll(left.min(SIGNAL_WAIT_MAX))?
            && let Event::Key(key) = event::read()?
            && screen.press(key) == Answer::Quit
        {
            return Ok(());
        }
        if Instant::now() >= next_look {
            next_look = Instant::now() + interval;
            if !screen.is_paused {
                screen.view = observer.look();
            }
        }
    }
    Ok(())
}

/// The longest time until a signal that ends the program is noticed.
const SIGNAL_WAIT_MAX: Duration = Duration::from_millis(250);

/// The longest time to the second look.
const FIRST_INTERVAL_MAX: Duration = Duration::from_millis(500);

/// What a key leads to.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    GoOn,
    Quit,
}

struct Screen {
    view: View,
    /// Where counters were looked for.
    places: String,
    /// The process that is chosen, wherever it stands.
    chosen: Option<u32>,
    is_paused: bool,
}

impl Screen {
    fn new(view: View, places: String) -> Self {
        Screen { view, places, chosen: None, is_paused: false }
    }

    fn press(&mut self, key: KeyEvent) -> Answer {
        let is_interrupt =
            key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            _ if key.kind != KeyEventKind::Press => Answer::GoOn,
            _ if is_interrupt => Answer::Quit,
            KeyCode::Char('q') | KeyCode::Esc => Answer::Quit,
            KeyCode::Char('p') => {
                self.is_paused = !self.is_paused;
                Answer::GoOn
            }
            KeyCode::Up => self.choose(|index, _| index.saturating_sub(1)),
            KeyCode::Down => self.choose(|index, last| (index + 1).min(last)),
            _ => Answer::GoOn,
        }
    }

    fn choose(&mut self, step: fn(usize, usize) -> usize) -> Answer {
        if let Some(last) = self.view.processes.len().checked_sub(1) {
            self.chosen = Some(self.view.processes[step(self.index(), last)].pid);
        }
        Answer::GoOn
    }

    /// Where the chosen process stands; the first one if it has ended.
    fn index(&self) -> usize {
        let processes = self.view.processes.iter();
        processes.enumerate().find(|(_, row)| Some(row.pid) == self.chosen).map_or(0, |(i, _)| i)
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let Rect { width, height, .. } = frame.area();
        let share = usize::from(height / 4).max(2);
        let state = if self.is_paused { "   (paused)" } else { "" };
        let remarks = lines(self.view.remarks().into_iter().map(Shown::Text), width);
        let foot: Vec<String> = [format!("{KEYS}{state}")].into_iter().chain(remarks).collect();
        let foot = truncated(foot, share, "… more with --once");
        let head = lines([Shown::Text(self.view.headline(&self.places))], width);
        let head = truncated(head, share, "…");
        let processes = (1 + self.view.processes.len() as u16).min(height / 3);
        let room = height.saturating_sub((head.len() + foot.len()) as u16 + processes);
        let chosen = self.view.processes.get(self.index());
        let chosen = chosen.map(|row| (row, detail(row, text_width(width))));
        let detail = chosen.as_ref().map_or(0, |(_, lines)| detail_height(lines, width)).min(room);
        let [head_area, processes, detail, foot_area] = Layout::vertical([
            Constraint::Length(head.len() as u16),
            Constraint::Min(processes),
            Constraint::Length(detail),
            Constraint::Length(foot.len() as u16),
        ])
        .areas(frame.area());
        frame.render_widget(text(head), head_area);
        self.draw_processes(frame, processes);
        if let Some((row, lines)) = chosen {
            draw_detail(frame, detail, row, lines);
        }
        frame.render_widget(text(foot), foot_area);
    }

    /// The table of `--once`, a line for each process. The titles stay where these are scrolled.
    fn draw_processes(&self, frame: &mut Frame<'_>, area: Rect) {
        let mut lines = lines([Shown::Table(self.view.table(area.width))], area.width).into_iter();
        let [titles, processes] =
            Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        frame.render_widget(Line::styled(lines.next().unwrap_or_default(), bold), titles);
        // Behind the titles is a rule.
        let list =
            List::new(lines.skip(1)).highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let mut state = ListState::default().with_selected(Some(self.index()));
        frame.render_stateful_widget(list, processes, &mut state);
    }
}

/// What is shown, in lines so wide.
fn lines(blocks: impl IntoIterator<Item = Shown>, width: u16) -> Vec<String> {
    let text = widelane_tables::show(blocks, &widelane_tables::Style { colour: false, width });
    text.lines().map(str::to_owned).collect()
}

/// The first `count_max` lines; where there are others, the last one says `more`.
fn truncated(mut lines: Vec<String>, count_max: usize, more: &str) -> Vec<String> {
    if lines.len() > count_max {
        lines.truncate(count_max.saturating_sub(1));
        lines.push(more.to_owned());
    }
    lines
}

fn text(lines: Vec<String>) -> Text<'static> {
    lines.into_iter().map(Line::from).collect()
}

/// The narrowest window in which the chart has room beside the text.
const WIDTH_WITH_CHART: u16 = 120;
/// How wide and high the chart is, with its frame.
const CHART: (u16, u16) = (38, 13);

/// How wide the text on one process is in a window so wide, without its frame.
fn text_width(width: u16) -> u16 {
    let chart = if width < WIDTH_WITH_CHART { 0 } else { CHART.0 };
    width.saturating_sub(chart + 2)
}

/// How high the frame is around these lines and the chart, if a window so wide has one.
fn detail_height(lines: &[String], width: u16) -> u16 {
    let text = 2 + lines.len() as u16;
    if width < WIDTH_WITH_CHART { text } else { text.max(CHART.1) }
}

/// What one process does now, and has done by kind, in lines so wide.
fn detail(row: &view::Row, width: u16) -> Vec<String> {
    let policy = row.policy_why.as_ref().map(|why| format!("policy: {why}"));
    let sentences = [
        waits(row),
        short_waits(row),
        combining(row),
        lane_process(row),
        device(row),
        policy,
        records(row),
    ];
    let kinds = (!row.kinds.is_empty()).then(|| Shown::Table(kinds(row)));
    lines(sentences.into_iter().flatten().map(Shown::Text).chain(kinds), width)
}

/// How the operations of each kind were done.
fn kinds(row: &view::Row) -> Table {
    let mut table = Table::new(&[
        ("Operation", Kind::Words),
        ("Kernel", Kind::Number),
        ("Pooled", Kind::Number),
        ("Single", Kind::Number),
        ("At once", Kind::Number),
        ("Delegated", Kind::Number),
    ]);
    table.rows.extend(row.kinds.iter().map(|of| {
        let ways = [of.batched, of.pooled, of.single, of.synchronous, of.delegated];
        let ways = ways.map(|way| if way > 0 { count(way) } else { String::new() });
        [of.kind.to_owned()].into_iter().chain(ways).collect()
    }));
    table.without_empty_columns()
}

/// The records of all ciphers; nothing where there were none.
fn records(row: &view::Row) -> Option<String> {
    let ciphers = row.ciphers.iter().map(|of| {
        format!("{} of {} ({} MiB)", count(of.messages), of.cipher, count(of.bytes >> 20))
    });
    let ciphers = ciphers.collect::<Vec<_>>().join(", ");
    (!ciphers.is_empty()).then(|| format!("records: {ciphers}"))
}

/// What one process has done, in `lines`, and beside it how full its batches are.
fn draw_detail(frame: &mut Frame<'_>, area: Rect, row: &view::Row, lines: Vec<String>) {
    let width = text_width(area.width) + 2;
    let [words, fills] =
        Layout::horizontal([Constraint::Length(width), Constraint::Fill(1)]).areas(area);
    let shown = usize::from(area.height.saturating_sub(2));
    let lines = truncated(lines, shown, "… more in a larger window, or with --json");
    let title = format!(
        " {} {}: {} since its start ",
        row.command,
        row.pid,
        counted(row.threads, "thread", "threads")
    );
    frame.render_widget(Paragraph::new(text(lines)).block(Block::bordered().title(title)), words);
    if area.width < WIDTH_WITH_CHART {
        return;
    }
    // Sixteen bars take the room of eight.
    let is_wide = row.fills.len() > 8;
    let is_labelled = |fill: usize| !is_wide || fill.is_multiple_of(4);
    let bars: Vec<Bar<'_>> = row
        .fills
        .iter()
        .zip(1..)
        .map(|(batches, fill)| {
            let label = if is_labelled(fill) { fill.to_string() } else { String::new() };
            Bar::default().value(*batches).label(Line::from(label))
        })
        .collect();
    let (width, gap) = if is_wide { (2, 0) } else { (3, 1) };
    let chart = BarChart::default()
        .data(BarGroup::default().bars(&bars))
        .bar_width(width)
        .bar_gap(gap)
        .block(Block::bordered().title(" batches by fill, now "));
    frame.render_widget(chart, fills);
}

/// How long operations waited for their batch; nothing where none did.
fn waits(row: &view::Row) -> Option<String> {
    row.wait_us_mean.map(|_| match row.wait_us_p99_below {
        Some(below) => format!("99 % of the waits now: less than {below} µs"),
        None => format!("over 1 % of the waits now: {} s or more", WAIT_BOUND_US / 1_000_000),
    })
}

/// How an idle event loop waited for other operations; nothing where it did not.
fn short_waits(row: &view::Row) -> Option<String> {
    let (us, joined) = (row.short_wait_us_mean?, row.short_wait_company_mean?);
    let waits = rate(row.short_waits_per_s);
    Some(format!(
        "waits for others now: {waits}/s of {us:.0} µs, {joined:.2} operations joined each"
    ))
}

/// What workers did for each other; nothing where they did nothing.
fn combining(row: &view::Row) -> Option<String> {
    let per_s = [row.lent_per_s, row.for_others_per_s];
    let failed = row.taken_back + row.refused;
    if per_s.into_iter().all(is_nothing) && failed == 0 {
        return None;
    }
    let [lent, for_others] = per_s.map(rate);
    let failures = match failed {
        0 => String::new(),
        _ => format!("; {} taken back, {} refused", count(row.taken_back), count(row.refused)),
    };
    Some(format!("combined now: {lent}/s done by other workers, {for_others}/s for them{failures}"))
}

/// What a lane process is; nothing of other processes.
fn lane_process(row: &view::Row) -> Option<String> {
    (row.lane_process_starts > 0).then(|| {
        let starts = row.lane_process_starts as usize;
        format!("lane process: signs for the workers, started {}", counted(starts, "time", "times"))
    })
}

/// What a device did, and what the CPU did in its place; nothing where it did nothing.
fn device(row: &view::Row) -> Option<String> {
    let instead = [
        (row.device_full, "found it full"),
        (row.device_refused, "not its own"),
        (row.device_dearer, "cheaper there"),
        (row.device_faults, "failed or wrong"),
        (row.device_late, "late"),
    ];
    let instead: Vec<String> = instead
        .iter()
        .filter(|(operations, _)| *operations > 0)
        .map(|(operations, why)| format!("{} {why}", count(*operations)))
        .collect();
    let so_far = match instead.as_slice() {
        [] if is_nothing(row.device_per_s) => return None,
        [] => String::new(),
        instead => format!("; by the CPU since the start: {}", instead.join(", ")),
    };
    Some(format!("device now: {}/s{so_far}", rate(row.device_per_s)))
}

/// Whether a rate is none that is worth a line.
fn is_nothing(per_s: Option<f64>) -> bool {
    per_s.is_none_or(|per_s| per_s.round() == 0.0)
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use widelane_bridge::counters::{CipherKind, OperationKind, WAIT_BUCKETS};
    use widelane_cpu::policy::trial::{Cause, Verdict};
    use widelane_host::choice::{Alternative, Choice};

    use super::*;
    use crate::live::{Objection, Process, Skipped, Survey};
    use crate::top::view::tests::process;

    fn screen() -> Screen {
        let survey =
            Survey { processes: vec![process(11, 200), process(12, 100)], ..Survey::default() };
        let view = View::between(&Survey::default(), &survey, Duration::from_secs(1));
        Screen::new(view, "/run/widelane".to_owned())
    }

    fn drawn(screen: &Screen, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn processes_and_the_chosen_ones_batches_are_shown() {
        let mut screen = screen();
        let text = drawn(&screen, 140, 30);
        for expected in [
            "2 processes accelerated",
            "Handshakes/s",
            "8.0 of 8",
            "nginx 11: 1 thread since",
            "waits for others now: 100/s of 300 µs, 0.50 operations joined each",
        ] {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
        }
        assert_eq!(screen.press(KeyCode::Down.into()), Answer::GoOn);
        assert_eq!(screen.press(KeyCode::Down.into()), Answer::GoOn);
        assert!(drawn(&screen, 140, 30).contains("nginx 12: 1 thread since"));
    }

    #[test]
    fn a_narrow_terminal_lacks_columns_and_no_digits() {
        let mut lanes = process(1_234_567, 123_456);
        lanes.command = "widelane-lanes".to_owned();
        let survey = Survey { processes: vec![lanes, process(12, 1)], ..Survey::default() };
        let view = View::between(&Survey::default(), &survey, Duration::from_secs(1));
        let whole = view.table(u16::MAX);
        let cells = whole.rows.iter().find(|row| row[0] == "1234567").unwrap();
        let screen = Screen::new(view, String::new());
        for (width, columns) in [(40, 3), (80, 8), (120, whole.columns.len())] {
            let text = drawn(&screen, width, 24);
            let line = text.lines().find(|line| line.contains("widelane-lanes")).unwrap();
            let line: Vec<&str> = line.trim_matches('"').split_whitespace().collect();
            assert_eq!(line.join(" "), cells[..columns].join(" "), "{width}: {text}");
        }
    }

    #[test]
    fn what_to_do_is_said_in_a_usual_terminal() {
        let skipped = |pid| Skipped {
            path: format!("/run/widelane/{pid}.counters").into(),
            objection: Objection::Version,
        };
        let survey =
            Survey { skipped: (1_234_567..1_234_576).map(skipped).collect(), ..Survey::default() };
        let view = View::between(&Survey::default(), &survey, Duration::from_secs(1));
        let text = drawn(&Screen::new(view, "/run/widelane".to_owned()), 80, 24);
        for expected in ["starts one.", "to upgrade it", "… more with --once", KEYS] {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
        }
    }

    #[test]
    fn the_chosen_process_is_seen_among_many() {
        let processes = (1..200).map(|pid| process(pid, 1)).collect();
        let survey = Survey { processes, ..Survey::default() };
        let view = View::between(&Survey::default(), &survey, Duration::from_secs(1));
        let mut screen = Screen::new(view, String::new());
        for _ in 0..150 {
            screen.press(KeyCode::Down.into());
        }
        let text = drawn(&screen, 80, 24);
        assert!(text.contains("151  nginx") || text.contains("151 nginx"), "{text}");
        assert!(text.contains("nginx 151:") && text.contains("Handshakes/s"), "{text}");
    }

    #[test]
    fn a_lane_process_is_shown_as_one() {
        let mut lane = process(11, 200);
        (lane.command, lane.counts.lane_process_starts) = ("widelane-lanes".to_owned(), 3);
        let survey = Survey { processes: vec![lane], ..Survey::default() };
        let view = View::between(&Survey::default(), &survey, Duration::from_secs(1));
        let text = drawn(&Screen::new(view, String::new()), 140, 30);
        assert!(text.contains("lane process: signs for the workers, started 3 times"), "{text}");
        assert!(!drawn(&screen(), 140, 30).contains("lane process"));
    }

    #[test]
    fn what_a_device_did_is_shown_with_what_it_left_to_the_cpu() {
        let mut server = process(11, 200);
        server.counts.device_jobs = 1_500;
        let shown = |server: &Process| {
            let survey = Survey { processes: vec![server.clone()], ..Survey::default() };
            let view = View::between(&Survey::default(), &survey, Duration::from_secs(1));
            drawn(&Screen::new(view, String::new()), 140, 30)
        };
        let text = shown(&server);
        assert!(text.contains("device now: 1,500/s ") && !text.contains("by the CPU"), "{text}");
        (server.counts.device_full, server.counts.device_late) = (20, 1);
        let text = shown(&server);
        assert!(text.contains("by the CPU since the start: 20 found it full, 1 late"), "{text}");
        assert!(!drawn(&screen(), 140, 30).contains("device now"));
    }

    #[test]
    fn a_process_that_chooses_says_what_and_why() {
        let mut chooser = process(11, 200);
        let alternative =
            |name, relative_cost| Alternative { name, slices: 3, relative_cost, clock_mhz: 0 };
        chooser.counts.choice = Some(Choice {
            alternatives: vec![alternative("512", 1_000), alternative("256", 1_270)],
            current: 0,
            is_comparing: false,
            cause: Cause::Time,
            verdict: Verdict::Cheapest,
            comparisons: 2,
            switches: 0,
        });
        let survey = Survey { processes: vec![chooser], ..Survey::default() };
        let view = View::between(&Survey::default(), &survey, Duration::from_secs(1));
        let words = "512 costs least since the last regular look: 512 1.00, 256 1.27";
        let style = widelane_tables::Style { colour: false, width: 140 };
        assert!(view.text(&style, "").contains(&format!("Policy of nginx 11: {words}.")));
        assert!(drawn(&Screen::new(view, String::new()), 160, 30).contains(words));
    }

    #[test]
    fn a_usual_terminal_shows_all_or_says_that_there_is_more() {
        let mut busy = process(11, 200);
        let counts = &mut busy.counts;
        let kinds = [
            OperationKind::Rsa2048,
            OperationKind::X25519Generate,
            OperationKind::X25519Derive,
            OperationKind::X25519MlKem768Encapsulate,
            OperationKind::P256Sign,
            OperationKind::P256Verify,
        ];
        for kind in kinds {
            let of_kind = &mut counts.by_kind[kind as usize];
            (of_kind.batched, of_kind.single, of_kind.delegated) = (1_234_567, 3_456, 12);
        }
        let of_cipher = &mut counts.by_cipher[CipherKind::Aes256Gcm as usize];
        (of_cipher.messages_by_room[0], of_cipher.bytes) = (1_000, 5 << 20);
        counts.device_jobs = 50;
        let survey = Survey { processes: vec![busy], ..Survey::default() };
        let view = View::between(&Survey::default(), &survey, Duration::from_secs(1));
        let screen = Screen::new(view, String::new());
        let text = drawn(&screen, 80, 24);
        for expected in [
            "99 % of the waits now: less than 8 µs ",
            "waits for others now: 100/s of 300 µs, 0.50 operations joined each",
            "combined now: 40/s done by other workers, 20/s for them",
            "device now: 50/s",
            "records: 1,000 of aes-256-gcm (5 MiB)",
            "Kernel",
            "Delegated",
            "x25519mlkem768-encapsulate",
            "1,234,567",
            "3,456",
            "p256-verify",
        ] {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
        }
        assert!(!text.contains("batches by fill") && !text.contains("Pooled"), "{text}");
        let (low, wide) = (drawn(&screen, 80, 16), drawn(&screen, 140, 30));
        assert!(low.contains("… more in a larger window") && low.contains("device now"), "{low}");
        assert!(wide.contains("batches by fill") && wide.contains("p256-verify"), "{wide}");
    }

    #[test]
    fn the_longest_waits_are_not_said_to_be_shorter() {
        let mut slow = process(11, 200);
        slow.counts.waits_by_bucket[WAIT_BUCKETS - 1] = 1_000_000;
        let survey = Survey { processes: vec![slow], ..Survey::default() };
        let view = View::between(&Survey::default(), &survey, Duration::from_secs(1));
        let text = drawn(&Screen::new(view, String::new()), 80, 24);
        assert!(text.contains("over 1 % of the waits now: 4 s or more"), "{text}");
    }

    #[test]
    fn the_smallest_window_is_no_panic() {
        for (width, height) in [(1, 1), (20, 5), (300, 2)] {
            drawn(&screen(), width, height);
        }
    }

    #[test]
    fn keys_pause_and_quit() {
        let mut screen = screen();
        screen.press(KeyCode::Char('p').into());
        assert!(screen.is_paused && drawn(&screen, 140, 30).contains("(paused)"));
        assert_eq!(screen.press(KeyCode::Char('q').into()), Answer::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.press(interrupt), Answer::Quit);
    }
}
