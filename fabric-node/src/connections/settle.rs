//! Waiting until the switch decides by its flows alone: the datapath keeps what it decided before (megaflows), and
//! Open vSwitch looks these over in rounds (`ofproto/ofproto-dpif-upcall.c`).
//!
//! Two rounds are enough where they put right whatever they find. In the userspace datapath (`netdev`) of
//! [releases](is_mended) before 2.17.8, 3.0.5, 3.1.3 and 3.2.1 they do not: of two megaflows that overlap, the one
//! that a round means to change is looked up by a packet that both take, and the other may be changed in its place
//! (`flow_put_on_pmd` in `lib/dpif-netdev.c`; mended by "dpif-netdev: Fix dpif_netdev_flow_put"). The switch then takes
//! the first for changed, and that one goes on allowing, or denying, for as long as packets hit it no less often than
//! every ten seconds. No further round finds it, so there everything that the datapath remembers is thrown
//! away (`revalidator/purge`, which deletes each by its own name): at once, and again when a round has ended that may
//! have had changes in hand. No packet is lost by that: the next of each kind is decided by the flows, as the first
//! one was. The kernel's datapath finds megaflows by name in every release.

use std::time::Duration;

use super::control::{Control, ControlError};

#[cfg(test)]
mod tests;

/// How long the datapath keeps a decision without looking again (`other_config:max-revalidator`, 500 ms by default).
const ROUND: Duration = Duration::from_millis(500);

/// Returns when the datapath has nothing left of decisions that it took before this call.
pub(super) fn settle(control: &mut Control) {
    if !needs_purge(control) || purge(control).is_err() {
        // The round that the first answer ends may have begun earlier.
        wait(control);
        wait(control);
    }
}

fn purge(control: &mut Control) -> Result<(), ControlError> {
    control.call("revalidator/purge", &[])?;
    wait(control);
    control.call("revalidator/purge", &[]).map(drop)
}

/// Until a round ends. A switch that cannot tell is given the time that a round takes at most.
fn wait(control: &mut Control) {
    if control.call("revalidator/wait", &[]).is_err() {
        std::thread::sleep(ROUND);
    }
}

/// Whether rounds are not enough. A switch that does not say what it is is taken for one of those.
fn needs_purge(control: &mut Control) -> bool {
    let datapaths = control.call("dpctl/dump-dps", &[]);
    if datapaths.is_ok_and(|datapaths| !has_userspace(&datapaths)) {
        return false;
    }
    !control.call("version", &[]).is_ok_and(|version| is_mended(&version))
}

/// Whether one of these datapaths, `TYPE@NAME` in a line each, is in user space.
fn has_userspace(datapaths: &str) -> bool {
    datapaths.lines().any(|line| line.trim_start().starts_with("netdev@"))
}

/// Whether rounds put right the megaflows that they mean to: `ovs-vswitchd (Open vSwitch) 3.1.0` does not. What a
/// distribution has mended by itself cannot be seen in the number, and is purged in vain.
fn is_mended(version: &str) -> bool {
    let Some((_, number)) = version.lines().next().and_then(|line| line.trim_end().rsplit_once(' ')) else {
        return false;
    };
    let mut parts = number.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse::<u32>().ok());
    let (Some(major), Some(minor)) = (parts.next(), parts.next()) else { return false };
    let mended_in = match (major, minor) {
        (2, 17) => 8,
        (3, 0) => 5,
        (3, 1) => 3,
        (3, 2) => 1,
        (major, minor) => return (major, minor) > (3, 2),
    };
    parts.next().unwrap_or(0) >= mended_in
}
