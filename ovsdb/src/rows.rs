//! Rows of the `Open_vSwitch` database as structures (ovs-vswitchd.conf.db(5)): the columns that Fabric uses.

use crate::monitor::{Lookup, Replica, TableColumns};
use crate::value::{FromDatum, Uuid, ValueError};
use std::collections::{BTreeMap, BTreeSet};

/// Why a row cannot be read as a structure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// The row lacks a column, since it is not monitored or was not selected.
    #[error("{table}.{column} is not there: add it to the monitored or selected columns")]
    MissingColumn {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
    },
    /// The column holds something else than the structure expects.
    #[error("{table}.{column}: {why}")]
    BadValue {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// What is wrong.
        why: ValueError,
    },
}

/// A structure that a row of one table can be read as.
pub trait TypedRow: Sized {
    /// The table.
    const TABLE: &'static str;
    /// The columns that [`Self::read`] needs.
    const COLUMNS: &'static [&'static str];

    /// Reads a row of a replica or of a select.
    fn read(row: &impl Lookup) -> Result<Self, RowError>;

    /// What to monitor so that the rows can be read.
    fn monitor() -> TableColumns {
        TableColumns::new(Self::TABLE, Self::COLUMNS)
    }

    /// All rows of the table in a replica.
    fn all(replica: &Replica) -> impl Iterator<Item = (Uuid, Result<Self, RowError>)> {
        replica.rows(Self::TABLE).map(|(uuid, row)| (uuid, Self::read(&**row)))
    }
}

fn read_column<T: FromDatum>(
    row: &impl Lookup,
    table: &'static str,
    column: &'static str,
) -> Result<T, RowError> {
    let datum = row.column(column).ok_or(RowError::MissingColumn { table, column })?;
    T::from_datum(datum).map_err(|why| RowError::BadValue { table, column, why })
}

/// Defines a structure and its [`TypedRow`]. Each field is `name: Type = "column"`.
macro_rules! typed_row {
    ($(#[$doc:meta])* $name:ident of $table:literal {
        $($(#[$field_doc:meta])* $field:ident: $kind:ty = $column:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $kind,)*
        }

        impl TypedRow for $name {
            const TABLE: &'static str = $table;
            const COLUMNS: &'static [&'static str] = &[$($column),*];

            fn read(row: &impl Lookup) -> Result<Self, RowError> {
                Ok(Self { $($field: read_column(row, $table, $column)?,)* })
            }
        }
    };
}

/// Keys and values that a column maps.
pub type Strings = BTreeMap<String, String>;

typed_row! {
    /// The root row: there is one.
    OpenVSwitch of "Open_vSwitch" {
        /// The configuration that ovs-vswitchd has reached.
        cur_cfg: i64 = "cur_cfg",
        /// The configuration that a client has asked for last.
        next_cfg: i64 = "next_cfg",
        /// The bridges.
        bridges: BTreeSet<Uuid> = "bridges",
        /// Keys of whoever manages the switch.
        external_ids: Strings = "external_ids",
        /// Version of Open vSwitch; `None` until ovs-vswitchd or its script has written it.
        ovs_version: Option<String> = "ovs_version",
        /// Kinds of datapath that ovs-vswitchd offers: `system`, `netdev`.
        datapath_types: BTreeSet<String> = "datapath_types",
        /// Settings of ovs-vswitchd.
        other_config: Strings = "other_config",
    }
}

typed_row! {
    /// A bridge.
    Bridge of "Bridge" {
        /// Its name, which its local port has too.
        name: String = "name",
        /// Its ports, the local one included.
        ports: BTreeSet<Uuid> = "ports",
        /// What it does without a controller: `standalone` or `secure`.
        fail_mode: Option<String> = "fail_mode",
        /// Kind of datapath, `system` or `netdev`; empty means `system`.
        datapath_type: String = "datapath_type",
        /// Versions of OpenFlow that it speaks, for example `OpenFlow15`; empty means the default ones.
        protocols: BTreeSet<String> = "protocols",
        /// Keys of whoever manages it.
        external_ids: Strings = "external_ids",
        /// Settings.
        other_config: Strings = "other_config",
        /// Its OpenFlow datapath id, sixteen hexadecimal digits; `None` until ovs-vswitchd has made the bridge.
        datapath_id: Option<String> = "datapath_id",
    }
}

typed_row! {
    /// A port of a bridge.
    Port of "Port" {
        /// Its name.
        name: String = "name",
        /// Its interfaces: one, unless it is a bond.
        interfaces: BTreeSet<Uuid> = "interfaces",
        /// Its VLAN, 0 to 4095.
        tag: Option<i64> = "tag",
        /// The VLANs that a trunk carries; empty means all.
        trunks: BTreeSet<i64> = "trunks",
        /// How it treats VLANs: `access`, `trunk`, `native-tagged`, `native-untagged`, `dot1q-tunnel`.
        vlan_mode: Option<String> = "vlan_mode",
        /// Keys of whoever manages it.
        external_ids: Strings = "external_ids",
        /// Settings.
        other_config: Strings = "other_config",
        /// Its row of table QoS.
        qos: Option<Uuid> = "qos",
    }
}

typed_row! {
    /// A network device in a port.
    Interface of "Interface" {
        /// Its name.
        name: String = "name",
        /// Its type, for example `internal`, `patch`, `vxlan`; empty means a device of the system.
        kind: String = "type",
        /// Settings of its type, for example `remote_ip`.
        options: Strings = "options",
        /// Its OpenFlow port number; `None` until ovs-vswitchd acts, -1 when it failed.
        ofport: Option<i64> = "ofport",
        /// The OpenFlow port number that is wished for, 1 to 65279.
        ofport_request: Option<i64> = "ofport_request",
        /// Keys of whoever manages it.
        external_ids: Strings = "external_ids",
        /// Settings.
        other_config: Strings = "other_config",
        /// Why ovs-vswitchd could not set it up.
        error: Option<String> = "error",
        /// `up` or `down`, as the administrator wants it.
        admin_state: Option<String> = "admin_state",
        /// `up` or `down`, as the link is.
        link_state: Option<String> = "link_state",
        /// Its Ethernet address.
        mac_in_use: Option<String> = "mac_in_use",
        /// Its MTU in bytes.
        mtu: Option<i64> = "mtu",
        /// The MTU in bytes that is wished for.
        mtu_request: Option<i64> = "mtu_request",
    }
}

typed_row! {
    /// Counters of an interface. ovs-vswitchd writes them every few seconds, so a monitor of them is never quiet;
    /// they are apart from [`Interface`] for that reason.
    InterfaceStatistics of "Interface" {
        /// The interface's name.
        name: String = "name",
        /// Counters by name, for example `rx_packets`, `tx_bytes`.
        statistics: BTreeMap<String, i64> = "statistics",
    }
}

#[cfg(test)]
mod tests;
