use super::*;

const MOST: u32 = 1500;
const RTT: Duration = Duration::from_millis(2);

/// A network in which a path carries so much, and maybe tells what does not fit.
struct Net {
    paths: Paths,
    now: Instant,
    began: Instant,
    /// What each peer's path carries; nothing of one that is not listed.
    carries: BTreeMap<IpAddr, u32>,
    /// Whether routers say what does not fit.
    tells: bool,
    /// Of so many probes one is lost, in turn; 0: none.
    loses: u32,
    sent: u32,
    bytes: u64,
    arriving: Vec<(Instant, IpAddr, u32, Option<u32>)>,
    found: Option<BTreeMap<IpAddr, u32>>,
}

fn peer(n: u8) -> IpAddr {
    IpAddr::from([192, 168, 78, n])
}

impl Net {
    fn of(peers: &[IpAddr], in_use: &[IpAddr]) -> Net {
        let now = Instant::now();
        let mut paths = Paths::new(MOST);
        paths.set(&peers.iter().copied().collect(), &in_use.iter().copied().collect(), now);
        let carries = peers.iter().map(|peer| (*peer, MOST)).collect();
        Net {
            paths,
            now,
            began: now,
            carries,
            tells: true,
            loses: 0,
            sent: 0,
            bytes: 0,
            arriving: Vec::new(),
            found: None,
        }
    }

    fn step(&mut self, until: Instant) -> bool {
        let arrival = self.arriving.iter().map(|(at, ..)| *at).min();
        let Some(at) = arrival.into_iter().chain(self.paths.next()).min().filter(|at| *at <= until) else {
            self.now = until;
            return false;
        };
        self.now = self.now.max(at);
        let (arrived, rest): (Vec<_>, Vec<_>) = self.arriving.drain(..).partition(|(at, ..)| *at <= self.now);
        self.arriving = rest;
        for (_, peer, size, hint) in arrived {
            match hint {
                Some(mtu) => self.paths.hinted(peer, mtu, self.now),
                None => self.paths.answered(peer, size, self.now),
            }
        }
        for Probe { to, size } in self.paths.due(self.now) {
            self.sent += 1;
            self.bytes += u64::from(size);
            let lost = self.loses > 0 && self.sent.is_multiple_of(self.loses);
            match self.carries.get(&to) {
                Some(carries) if !lost && size <= *carries => {
                    self.arriving.push((self.now + RTT, to, size, None))
                }
                Some(carries) if size > *carries && self.tells => {
                    self.arriving.push((self.now + RTT, to, size, Some(*carries)));
                }
                _ => {}
            }
        }
        self.found = self.paths.changed().or(self.found.take());
        true
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.step(until) {}
    }

    /// Time until this is known of all paths.
    fn until_known(&mut self, wanted: &[(IpAddr, u32)]) -> Duration {
        let wanted: BTreeMap<IpAddr, u32> = wanted.iter().copied().collect();
        let (start, end) = (self.now, self.now + Duration::from_secs(120));
        while self.paths.told != wanted {
            assert!(self.step(end), "{:?} is known, not {wanted:?}", self.paths.told);
        }
        self.now - start
    }
}

#[test]
fn a_path_as_wide_as_the_interface_takes_one_probe_every_two_seconds_in_use_and_one_a_minute_else() {
    let mut net = Net::of(&[peer(2), peer(3)], &[peer(2)]);
    net.pass(Duration::from_secs(600));
    assert_eq!(net.found, None);
    assert!((290..=315).contains(&net.sent), "{}", net.sent);
}

#[test]
fn a_narrow_path_that_routers_tell_of_is_known_at_once() {
    let mut net = Net::of(&[peer(2)], &[peer(2)]);
    net.pass(Duration::from_secs(9));
    net.carries.insert(peer(2), 1300);
    // A router tells of a packet of a tunnel.
    net.paths.hinted(peer(2), 1300, net.now);
    let took = net.until_known(&[(peer(2), 1300)]);
    assert!(took <= LATER + RTT * 2, "{took:?}");
    net.pass(Duration::from_secs(100));
    assert_eq!(net.paths.told, [(peer(2), 1300)].into());
}

#[test]
fn a_hint_in_the_midst_of_a_check_is_taken_up() {
    let mut net = Net::of(&[peer(2)], &[peer(2)]);
    net.carries.insert(peer(2), 1400);
    net.until_known(&[(peer(2), 1400)]);
    net.tells = false;
    // The size that is known is answered, and one byte more waited for.
    net.pass(IN_USE + RTT * 5);
    net.carries.insert(peer(2), 1300);
    net.paths.hinted(peer(2), 1300, net.now);
    let took = net.until_known(&[(peer(2), 1300)]);
    assert!(took <= LATER + RTT * 2, "{took:?}");
}

#[test]
fn without_traffic_it_is_known_after_the_next_check() {
    let mut net = Net::of(&[peer(2)], &[peer(2)]);
    net.pass(Duration::from_secs(9));
    net.carries.insert(peer(2), 1300);
    let took = net.until_known(&[(peer(2), 1300)]);
    assert!(took <= IN_USE + LATER + RTT * 3, "{took:?}");
}

#[test]
fn a_path_that_loses_without_a_word_is_measured_to_the_byte() {
    for carries in [576, 577, 1000, 1279, 1280, 1300, 1419, 1420, 1492, 1499] {
        let mut net = Net::of(&[peer(2)], &[peer(2)]);
        net.tells = false;
        net.pass(Duration::from_secs(9));
        net.carries.insert(peer(2), carries);
        let took = net.until_known(&[(peer(2), carries)]);
        assert!(took <= IN_USE + WAIT * 7 + RTT * 4, "{carries}: {took:?}");
    }
}

#[test]
fn a_path_that_becomes_wider_is_found_at_the_next_check() {
    let mut net = Net::of(&[peer(2)], &[peer(2)]);
    net.carries.insert(peer(2), 1300);
    net.until_known(&[(peer(2), 1300)]);
    net.carries.insert(peer(2), 1400);
    let took = net.until_known(&[(peer(2), 1400)]);
    assert!(took <= IN_USE + WAIT * 5, "{took:?}");
    net.carries.insert(peer(2), MOST);
    let took = net.until_known(&[]);
    assert!(took <= IN_USE + WAIT * 3, "{took:?}");
}

#[test]
fn a_peer_that_says_nothing_has_a_path_as_wide_as_the_interface_and_is_left_in_peace() {
    let mut net = Net::of(&[peer(2)], &[peer(2)]);
    net.carries.clear();
    net.pass(Duration::from_secs(600));
    assert_eq!(net.found, None);
    assert!(net.sent < 120, "{}", net.sent);
}

#[test]
fn of_a_peer_that_never_answers_routers_are_believed_for_ten_minutes() {
    let mut net = Net::of(&[peer(2)], &[peer(2)]);
    net.carries.clear();
    net.pass(Duration::from_secs(5));
    net.paths.hinted(peer(2), 1300, net.now);
    let took = net.until_known(&[(peer(2), 1300)]);
    assert!(took <= WAIT * 3, "{took:?}");
    net.pass(BELIEF - Duration::from_secs(5));
    assert_eq!(net.paths.told, [(peer(2), 1300)].into());
    net.pass(SILENT * 2);
    assert_eq!(net.paths.told, BTreeMap::new());
}

#[test]
fn a_peer_that_goes_away_is_no_narrow_path() {
    let mut net = Net::of(&[peer(2), peer(3)], &[peer(2), peer(3)]);
    net.carries.insert(peer(3), 1300);
    net.until_known(&[(peer(3), 1300)]);
    net.carries.clear();
    // Nor is it one because somebody says so.
    net.paths.hinted(peer(2), 600, net.now);
    net.pass(Duration::from_secs(100));
    assert_eq!(net.paths.told, [(peer(3), 1300)].into(), "what was known stays");
}

#[test]
fn lies_of_routers_change_nothing_and_cost_little() {
    let mut net = Net::of(&[peer(2)], &[peer(2)]);
    net.pass(Duration::from_secs(5));
    let before = net.sent;
    for lie in 0..20_000 {
        net.paths.hinted(peer(2), [0, 68, 600, 1300, 1499][lie % 5], net.now);
        net.pass(Duration::from_millis(1));
    }
    assert_eq!(net.found, None);
    assert!(net.sent - before < 250, "{} probes in 20 s", net.sent - before);
}

#[test]
fn a_lossy_path_is_not_taken_for_a_narrow_one() {
    for loses in [2, 3, 5, 10] {
        let mut net = Net::of(&[peer(2)], &[peer(2)]);
        net.loses = loses;
        net.pass(Duration::from_secs(200));
        assert_eq!(net.found, None, "1 of {loses} lost");
    }
}

#[test]
fn what_does_not_even_carry_the_least_is_said_to_carry_that() {
    let six: IpAddr = "fd78::2".parse().unwrap();
    let mut net = Net::of(&[peer(2), six], &[peer(2), six]);
    net.carries = [(peer(2), 300), (six, 900)].into();
    net.until_known(&[(peer(2), 576), (six, 1280)]);
}

#[test]
fn a_thousand_paths_in_use_share_a_hundred_probes_a_second() {
    let peers: Vec<IpAddr> = (0..1000_u32).map(|n| IpAddr::from((10 << 24 | n).to_be_bytes())).collect();
    let mut net = Net::of(&peers, &peers);
    net.pass(Duration::from_secs(100));
    assert!(net.sent <= 11_000, "{}", net.sent);
    assert!(net.bytes / 100 < 200_000, "{} bytes a second", net.bytes / 100);
}

#[test]
fn a_path_that_comes_into_use_is_looked_at_and_one_that_goes_is_forgotten() {
    let mut net = Net::of(&[peer(2)], &[]);
    net.pass(Duration::from_secs(10));
    net.carries.insert(peer(2), 1300);
    net.pass(Duration::from_secs(10));
    assert_eq!(net.found, None, "nobody uses it");
    net.paths.set(&[peer(2)].into(), &[peer(2)].into(), net.now);
    assert!(net.until_known(&[(peer(2), 1300)]) < WAIT);
    net.paths.set(&BTreeSet::new(), &BTreeSet::new(), net.now);
    assert_eq!((net.paths.changed(), net.paths.next()), (Some(BTreeMap::new()), None));
    assert!(net.began < net.now);
}
