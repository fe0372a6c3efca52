//! The text of a flow-mod in a message; its bytes are the flow's own affair ([`crate::flow`]).

use std::fmt::{self, Write as _};

use super::parts;
use crate::flow::{FlowMod, FlowModCommand};
use crate::port;

const FLAGS: [&str; 5] =
    ["send_flow_rem", "check_overlap", "reset_counts", "no_packet_counts", "no_byte_counts"];

pub(crate) fn format(flow_mod: &FlowMod, out: &mut String) -> fmt::Result {
    let flow = &flow_mod.flow;
    out.push_str(match flow_mod.command {
        FlowModCommand::Add => " ADD",
        FlowModCommand::Modify => " MOD",
        FlowModCommand::ModifyStrict => " MOD_STRICT",
        FlowModCommand::Delete => " DEL",
        FlowModCommand::DeleteStrict => " DEL_STRICT",
    });
    if flow.table != 0 {
        write!(out, " table:{}", flow.table)?;
    }
    write!(out, " {}", parts::match_text(&flow.matches, Some(flow.priority)))?;
    if !out.ends_with(' ') {
        out.push(' ');
    }
    let deletes = matches!(flow_mod.command, FlowModCommand::Delete | FlowModCommand::DeleteStrict);
    if flow_mod.cookie_mask == 0 && !deletes && flow.cookie != 0 && flow.cookie != u64::MAX {
        write!(out, "cookie:{:#x} ", flow.cookie)?;
    }
    if flow_mod.cookie_mask != 0 {
        write!(out, "cookie:{:#x}/{:#x} ", flow.cookie, flow_mod.cookie_mask)?;
    }
    if flow.idle_timeout != 0 {
        write!(out, "idle:{} ", flow.idle_timeout)?;
    }
    if flow.hard_timeout != 0 {
        write!(out, "hard:{} ", flow.hard_timeout)?;
    }
    if flow_mod.importance != 0 {
        write!(out, "importance:{} ", flow_mod.importance)?;
    }
    if flow_mod.buffer_id != FlowMod::NO_BUFFER {
        write!(out, "buf:{:#x} ", flow_mod.buffer_id)?;
    }
    if flow_mod.out_port != port::ANY {
        write!(out, "out_port:{} ", parts::port_text(flow_mod.out_port))?;
    }
    for (_, name) in FLAGS.iter().enumerate().filter(|(bit, _)| flow.flags.0 >> bit & 1 == 1) {
        write!(out, "{name} ")?;
    }
    write!(out, "actions={}", parts::actions_text(&flow.actions))
}
