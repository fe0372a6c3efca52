use super::*;

const REFRESH: Duration = Duration::from_secs(300);
const PATIENCE: Duration = Duration::from_secs(1);

fn address(n: u8) -> IpAddr {
    IpAddr::from([192, 168, 77, n])
}

fn hop(n: u8) -> Hop {
    Hop { device: 5, address: address(n) }
}

fn peers(wanted: &[u8], now: Instant) -> Peers {
    let mut peers = Peers::new(REFRESH, PATIENCE);
    peers.set(&wanted.iter().copied().map(address).collect(), now);
    peers
}

fn ask(peers: &mut Peers, now: Instant) -> Vec<IpAddr> {
    let due = peers.due(now);
    for peer in &due {
        peers.asked(*peer, Some(Hop { device: 5, address: *peer }), now);
    }
    due
}

#[test]
fn no_peers_are_settled_at_once() {
    let mut peers = peers(&[], Instant::now());
    assert_eq!(peers.settled(), Some(BTreeSet::new()));
    assert_eq!(peers.settled(), None);
}

#[test]
fn peers_settle_when_the_last_has_answered() {
    let t0 = Instant::now();
    let mut peers = peers(&[2, 3], t0);
    assert_eq!(ask(&mut peers, t0), [address(2), address(3)]);
    peers.heard(hop(2), Standing::Confirmed, t0);
    assert_eq!(peers.settled(), None);
    peers.heard(hop(3), Standing::Other, t0);
    assert_eq!(peers.settled(), None);
    peers.heard(hop(3), Standing::Confirmed, t0);
    assert_eq!(peers.settled(), Some([address(2), address(3)].into()));
    assert_eq!(peers.next(), Some(t0 + REFRESH));
}

#[test]
fn a_silent_peer_is_asked_again_and_given_up_in_time() {
    let t0 = Instant::now();
    let mut peers = peers(&[2], t0);
    ask(&mut peers, t0);
    assert_eq!(peers.next(), Some(t0 + AGAIN));
    let mut asked = 0;
    while let Some(next) = peers.next().filter(|_| peers.complaint().is_none()) {
        asked += ask(&mut peers, next).len();
    }
    assert_eq!(asked, 3);
    assert_eq!(peers.settled(), Some([address(2)].into()));
    assert_eq!(peers.complaint().unwrap(), "tunnel peers do not answer: 192.168.77.2; are these nodes up?");
    assert_eq!(peers.next(), Some(t0 + PATIENCE + REST.0));
}

#[test]
fn the_rest_of_a_silent_peer_grows_to_a_bound() {
    let t0 = Instant::now();
    let mut peers = peers(&[2], t0);
    let mut now = t0;
    for _ in 0..40 {
        peers.due(now);
        peers.asked(address(2), None, now);
        let next = peers.next().unwrap();
        assert!(next - now <= REST.1);
        now = next;
    }
    assert!(peers.next().unwrap() - now <= REST.1);
    ask(&mut peers, now);
    peers.heard(hop(2), Standing::Confirmed, now);
    assert_eq!(peers.complaint(), None);
}

#[test]
fn a_changed_device_chills_its_peers_only() {
    let t0 = Instant::now();
    let mut peers = peers(&[2, 3], t0);
    peers.due(t0);
    peers.asked(address(2), Some(Hop { device: 5, address: address(2) }), t0);
    peers.asked(address(3), Some(Hop { device: 6, address: address(3) }), t0);
    peers.heard(hop(2), Standing::Confirmed, t0);
    peers.heard(Hop { device: 6, address: address(3) }, Standing::Fixed, t0);
    peers.settled();
    peers.device_changed(6, t0);
    assert_eq!(peers.due(t0), [address(3)]);
    assert_eq!(peers.settled(), None);
    // One answer is not enough.
    let other = Hop { device: 6, address: address(3) };
    for pause in [CONFIRM, REFRESH] {
        let now = peers.peers[&address(3)].next;
        peers.asked(address(3), Some(other), now);
        peers.heard(other, Standing::Confirmed, now);
        assert_eq!(peers.peers[&address(3)].next, now + pause);
    }
}

#[test]
fn a_peer_that_was_given_up_does_not_hold_back_the_others_later() {
    let t0 = Instant::now();
    let mut peers = peers(&[2], t0);
    peers.asked(address(2), None, t0);
    assert!(peers.settled().is_some());
    peers.unsettle(t0);
    peers.set(&[address(2), address(3)].into(), t0);
    ask(&mut peers, t0);
    peers.heard(hop(3), Standing::Confirmed, t0);
    assert_eq!(peers.settled(), Some([address(2), address(3)].into()));
}
