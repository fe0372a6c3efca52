use super::super::daemon::{Daemon, Says};
use super::*;

/// What a daemon that answers so is asked for while it settles.
fn asked(says: Says) -> Vec<String> {
    let daemon = Daemon::start(says);
    settle(&mut Control::new(daemon.folder(), Duration::from_secs(5)));
    daemon.asked()
}

#[test]
fn what_rounds_cannot_put_right_is_thrown_away() {
    let asked = asked(|command, _| match command {
        "dpctl/dump-dps" => "netdev@ovs-netdev\n".to_owned(),
        "version" => "ovs-vswitchd (Open vSwitch) 3.1.0\n".to_owned(),
        _ => String::new(),
    });
    assert_eq!(
        asked,
        ["dpctl/dump-dps", "version", "revalidator/purge", "revalidator/wait", "revalidator/purge"]
    );
}

#[test]
fn where_rounds_put_everything_right_nothing_is_thrown_away() {
    let waits = ["revalidator/wait", "revalidator/wait"];
    let kernel = asked(|command, _| match command {
        "dpctl/dump-dps" => "system@ovs-system\n".to_owned(),
        _ => "ovs-vswitchd (Open vSwitch) 3.1.0\n".to_owned(),
    });
    assert_eq!(kernel.get(1..), Some(&waits.map(str::to_owned)[..]));
    let mended = asked(|command, _| match command {
        "dpctl/dump-dps" => "netdev@ovs-netdev\n".to_owned(),
        _ => "ovs-vswitchd (Open vSwitch) 3.3.0\n".to_owned(),
    });
    assert_eq!(mended.get(2..), Some(&waits.map(str::to_owned)[..]));
}

#[test]
fn releases_are_told_apart() {
    let mended = |number: &str| is_mended(&format!("ovs-vswitchd (Open vSwitch) {number}\n"));
    for number in ["2.17.8", "2.17.12", "3.0.5", "3.1.3", "3.1.7-dirty", "3.2.1", "3.3.0", "3.10.0", "4.0.0"]
    {
        assert!(mended(number), "{number}");
    }
    for number in
        ["2.5.9", "2.16.9", "2.17.7", "3.0.4", "3.1.0", "3.1", "3.1.2-dirty", "3.2.0", "", "unknown"]
    {
        assert!(!mended(number), "{number}");
    }
}

#[test]
fn datapaths_are_told_apart() {
    assert!(has_userspace("system@ovs-system\nnetdev@ovs-netdev\n"));
    assert!(!has_userspace("system@ovs-system\n") && !has_userspace(""));
}
