//! Addresses as tables for people.

use fabric_api::{Claim, Ipam, Pool};
use policy::object::EGRESS;

use super::table::Table;

/// How the pools are used.
#[must_use]
pub fn pools(ipam: &Ipam) -> String {
    let mut table = Table::new(&[
        "NETWORK", "FAMILY", "SIZE", "CLAIMED", "RETAINED", "PENDING", "RESTING", "DISPUTED", "FREE",
    ]);
    for pool in &ipam.pools {
        let Pool { network, family, size, claimed, retained, pending, resting, disputed, free } = pool;
        let numbers = [claimed, retained, pending, resting, disputed].map(ToString::to_string);
        let [claimed, retained, pending, resting, disputed] = numbers;
        table.row([
            network.clone(),
            format!("IPv{family}"),
            many(*size),
            claimed,
            retained,
            pending,
            resting,
            disputed,
            many(*free),
        ]);
    }
    table.to_string()
}

/// Who has which address.
#[must_use]
pub fn claims(claims: &[Claim]) -> String {
    let mut table = Table::new(&["ADDRESS", "NETWORK", "POD", "NODE", "STATE", "SINCE", "OWNER"]);
    for claim in claims {
        let or_none = |text: Option<&String>| text.cloned().unwrap_or_else(|| "-".to_owned());
        let (state, owner) = match claim.owner.as_str() {
            "" => ("retained", "-".to_owned()),
            EGRESS => ("egress", "-".to_owned()),
            // The first digits of a container's id are enough to tell it by.
            owner => ("claimed", short(owner)),
        };
        table.row([
            claim.ip.to_string(),
            or_none(Some(&claim.network).filter(|network| !network.is_empty())),
            or_none(claim.pod.as_ref()),
            claim.node.clone(),
            state.to_owned(),
            or_none(claim.since.as_ref()),
            owner,
        ]);
    }
    table.to_string()
}

fn short(owner: &str) -> String {
    match owner.split_once('/') {
        Some((id, ifname)) => format!("{}/{ifname}", id.chars().take(12).collect::<String>()),
        None => owner.to_owned(),
    }
}

/// Numbers that nobody reads digit by digit as the nearest power of two.
fn many(number: u64) -> String {
    if number < 1 << 32 {
        return number.to_string();
    }
    let whole = number.ilog2();
    let half = number >> (whole - 1) & 1;
    format!("~2^{}", u64::from(whole) + half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_read_like_this() {
        let pool = |family, size, free| Pool {
            network: "pods".to_owned(),
            family,
            size,
            claimed: 3,
            retained: 2,
            pending: 1,
            resting: 0,
            disputed: 0,
            free,
        };
        let ipam = Ipam { pools: vec![pool(4, 253, 247), pool(6, u64::MAX - 1, u64::MAX - 7)] };
        let text = "\
NETWORK  FAMILY  SIZE   CLAIMED  RETAINED  PENDING  RESTING  DISPUTED  FREE
pods     IPv4    253    3        2         1        0        0         247
pods     IPv6    ~2^64  3        2         1        0        0         ~2^64
";
        assert_eq!(pools(&ipam), text);
        let held = Claim {
            ip: "10.0.0.5".parse().expect("an address"),
            network: "pods".to_owned(),
            pod: Some("shop/db-0".to_owned()),
            node: "n1".to_owned(),
            owner: "0123456789abcdef/eth0".to_owned(),
            since: Some("2026-11-30T19:16:32Z".to_owned()),
            retain: true,
        };
        let kept = Claim { owner: String::new(), since: None, ..held.clone() };
        let text = "\
ADDRESS   NETWORK  POD        NODE  STATE     SINCE                 OWNER
10.0.0.5  pods     shop/db-0  n1    claimed   2026-11-30T19:16:32Z  0123456789ab/eth0
10.0.0.5  pods     shop/db-0  n1    retained  -                     -
";
        assert_eq!(claims(&[held.clone(), kept]), text);
        let egress = Claim {
            ip: "192.168.77.200".parse().expect("an address"),
            network: String::new(),
            pod: None,
            owner: EGRESS.to_owned(),
            ..held
        };
        let text = "\
ADDRESS         NETWORK  POD  NODE  STATE   SINCE                 OWNER
192.168.77.200  -        -    n1    egress  2026-11-30T19:16:32Z  -
";
        assert_eq!(claims(&[egress]), text);
    }

    #[test]
    fn large_numbers_are_powers_of_two() {
        let texts = [0, 4_294_967_295, 1 << 32, 3 << 31, u64::MAX].map(many);
        assert_eq!(texts, ["0", "4294967295", "~2^32", "~2^33", "~2^64"]);
    }
}
