//! A database for tests: rows as JSON, told to a session as a server would.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ovsdb::rpc::Limits;
use ovsdb::session::{Event, Session, SessionConfig};
use ovsdb::{Replica, RowChange, TableColumns};
use serde_json::{Map, Value, json};

use super::view::tables;

/// Rows of all tables by UUID: `TABLE`, `UUID`, the columns that do not have their default value.
pub type Rows = BTreeMap<(&'static str, String), Value>;

/// A database, as a client sees it.
pub struct Fixture {
    replica: Replica,
}

/// Columns that are numbers, maps and sets, by what the schema says of them; all others are text.
fn kind(table: &str, column: &str) -> Value {
    let many = |key: &str| json!({"key": key, "min": 0, "max": "unlimited"});
    let optional = |key: &str| json!({"key": key, "min": 0, "max": 1});
    match (table, column) {
        (_, "cur_cfg" | "next_cfg") => json!("integer"),
        (_, "bridges" | "ports" | "interfaces") => many("uuid"),
        (_, "external_ids" | "other_config" | "options") => {
            json!({"key": "string", "value": "string", "min": 0, "max": "unlimited"})
        }
        (_, "datapath_types" | "protocols") => many("string"),
        (_, "trunks") => many("integer"),
        (_, "tag" | "ofport" | "ofport_request" | "mtu" | "mtu_request") => optional("integer"),
        (_, "qos") => optional("uuid"),
        (_, "name" | "type" | "datapath_type") => json!("string"),
        _ => optional("string"),
    }
}

fn schema(monitor: &[TableColumns]) -> Value {
    let columns = |table: &TableColumns| {
        let column = |name: &String| (name.clone(), json!({"type": kind(&table.table, name)}));
        Value::Object(table.columns.iter().map(column).collect())
    };
    let table = |table: &TableColumns| (table.table.clone(), json!({"columns": columns(table)}));
    let tables: Map<String, Value> = monitor.iter().map(table).collect();
    json!({"name": "Open_vSwitch", "version": "8.3.1", "tables": tables})
}

/// UUID of a row.
pub fn uuid(number: u32) -> String {
    format!("00000000-0000-0000-0000-{number:012x}")
}

/// A reference to a row.
pub fn reference(number: u32) -> Value {
    json!(["uuid", uuid(number)])
}

/// References to rows.
pub fn references(numbers: impl IntoIterator<Item = u32>) -> Value {
    json!(["set", numbers.into_iter().map(reference).collect::<Vec<_>>()])
}

impl Fixture {
    /// A client that is in step with a database of these rows.
    pub fn new(rows: Rows) -> (Self, Replica) {
        let replica = read(&rows);
        (Self { replica: replica.clone() }, replica)
    }

    /// The rows become these.
    pub fn become_rows(&mut self, rows: Rows) -> Vec<RowChange> {
        let replica = read(&rows);
        let changes = replica.changes_since(&self.replica);
        self.replica = replica;
        changes
    }

    /// All rows, to a client that connects anew.
    pub fn snapshot(&self) -> Replica {
        self.replica.clone()
    }
}

/// The replica of a client that connects to a database of these rows.
fn read(rows: &Rows) -> Replica {
    let config = SessionConfig {
        database: "Open_vSwitch".to_owned(),
        monitor: tables(),
        probe: Duration::ZERO,
        limits: Limits::default(),
    };
    let mut initial: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for ((table, uuid), row) in rows {
        initial.entry(table).or_default().insert(uuid.clone(), json!({"new": whole(table, row)}));
    }
    let schema = schema(&config.monitor);
    let mut session = Session::new(config, Instant::now()).unwrap();
    for message in [
        json!({"id": 0, "result": schema, "error": null}),
        // An older server, which sends whole rows (RFC 7047 §4.1.5).
        json!({"id": 1, "result": null, "error": "unknown method"}),
        json!({"id": 2, "result": initial, "error": null}),
    ] {
        session.handle_bytes(Instant::now(), message.to_string().as_bytes()).unwrap();
    }
    match session.poll_event() {
        Some(Event::Synced(replica)) => replica,
        other => panic!("not in step: {other:?}"),
    }
}

/// A row with the columns that have their default value.
fn whole(table: &str, row: &Value) -> Value {
    let monitored = tables().into_iter().filter(|monitored| monitored.table == table);
    let mut columns = Map::new();
    for column in monitored.flat_map(|monitored| monitored.columns) {
        let default = match kind(table, &column) {
            Value::String(kind) if kind == "integer" => json!(0),
            Value::String(_) => json!(""),
            kind if kind.get("value").is_some() => json!(["map", []]),
            _ => json!(["set", []]),
        };
        columns.insert(column.clone(), row.get(&column).cloned().unwrap_or(default));
    }
    Value::Object(columns)
}

/// The root row, bridge `br-fabric` (number 2) with its LOCAL port (3, 4), and these ports: UUID number of the port,
/// whose interface has the next one, and the interface's columns. A port's name is that of its interface.
pub fn switch(cur_cfg: i64, ports: &[(u32, Value)]) -> Rows {
    let local = (3, json!({"name": "br-fabric", "type": "internal", "ofport": 65534}));
    let mut rows = Rows::new();
    rows.insert(
        ("Open_vSwitch", uuid(1)),
        json!({"cur_cfg": cur_cfg, "next_cfg": cur_cfg, "bridges": references([2]), "ovs_version": "3.1.0",
               "datapath_types": ["set", ["netdev", "system"]]}),
    );
    let ports: Vec<&(u32, Value)> = std::iter::once(&local).chain(ports).collect();
    rows.insert(
        ("Bridge", uuid(2)),
        json!({"name": "br-fabric", "ports": references(ports.iter().map(|(port, _)| *port)),
               "datapath_type": "netdev", "fail_mode": "secure", "external_ids": ["map", [["fabric", "n1"]]]}),
    );
    for (port, interface) in ports {
        let name = interface.get("name").cloned();
        rows.insert(("Port", uuid(*port)), json!({"name": name, "interfaces": references([port + 1])}));
        rows.insert(("Interface", uuid(port + 1)), interface.clone());
    }
    rows
}
