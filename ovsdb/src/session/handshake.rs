//! How a session gets in step: schema, check, monitor, first rows.

use super::{Core, Event, Pending, read_reply, unknown_database};
use crate::error::Error;
use crate::monitor::{Replica, Version};
use crate::schema::Schema;
use serde_json::value::RawValue;

/// The name of a session's only monitor.
pub(super) const MONITOR_ID: &str = "replica";

/// How far a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waits for the schema.
    Schema,
    /// Waits for the first rows.
    Monitor,
    /// Follows changes.
    Synced,
}

impl Core {
    /// The schema has come: checks what is to be monitored, and starts the monitor.
    pub(super) fn handle_schema(&mut self, result: Result<&RawValue, &RawValue>) -> Result<(), Error> {
        let schema: Schema =
            read_reply("get_schema", result)?.map_err(|why| unknown_database(why, &self.config.database))?;
        self.replica = Replica::new(&schema, &self.config.monitor)?;
        if self.config.monitor.is_empty() {
            self.synced();
            return Ok(());
        }
        self.start_monitor(Version::Difference)
    }

    /// The first rows have come, or the server does not know the method.
    pub(super) fn handle_monitor(
        &mut self,
        version: Version,
        result: Result<&RawValue, &RawValue>,
    ) -> Result<(), Error> {
        let rows = match result {
            Ok(rows) => rows,
            Err(error) => {
                let error = super::read_error(method(version), error)?;
                if version == Version::Difference && error.is_unknown_method() {
                    return self.start_monitor(Version::Whole);
                }
                return Err(super::refused(method(version), error));
            }
        };
        self.replica.apply_initial(version, rows)?;
        self.synced();
        Ok(())
    }

    fn start_monitor(&mut self, version: Version) -> Result<(), Error> {
        self.phase = Phase::Monitor;
        let params = serde_json::to_value((&self.config.database, MONITOR_ID, self.replica.requests()))
            .map_err(|why| Error::Encode(why.to_string()))?;
        self.send(method(version), &params, Pending::Monitor(version)).map(drop)
    }

    fn synced(&mut self) {
        self.phase = Phase::Synced;
        self.events.push_back(Event::Synced(self.replica.clone()));
    }
}

fn method(version: Version) -> &'static str {
    match version {
        Version::Whole => "monitor",
        Version::Difference => "monitor_cond",
    }
}
