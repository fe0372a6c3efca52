//! The numbers of actions on the wire, with the sizes and versions that go with them.
//!
//! Numbers without a vendor are OpenFlow's (1.5.1 §7.2.6), the others Nicira's (`ovs-actions(7)`).

/// What an action is called on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Code {
    /// 0 for OpenFlow's own.
    pub(super) vendor: u32,
    pub(super) number: u16,
    size: Size,
    versions: (u8, u8),
}

/// How long an action is, header included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Size {
    Exactly(usize),
    AtLeast(usize),
}

/// Vendor of the Nicira extensions.
pub(super) const NICIRA: u32 = 0x0000_2320;

use Size::{AtLeast, Exactly};

const fn of(number: u16, size: Size) -> Code {
    Code { vendor: 0, number, size, versions: (4, 6) }
}

const fn nx(number: u16, size: Size) -> Code {
    Code { vendor: NICIRA, number, size, versions: (4, 6) }
}

impl Code {
    const fn in_versions(mut self, first: u8, last: u8) -> Self {
        self.versions = (first, last);
        self
    }

    /// Whether an action of `length` bytes can have this code.
    pub(super) fn allows(&self, length: usize) -> bool {
        match self.size {
            Exactly(size) => length == size,
            AtLeast(size) => length >= size,
        }
    }

    pub(super) fn is(&self, vendor: u32, number: u16, version: u8) -> bool {
        let (first, last) = self.versions;
        self.number == number && self.vendor == vendor && (first..=last).contains(&version)
    }
}

pub(super) const OUTPUT: Code = of(0, Exactly(16));
pub(super) const DEC_MPLS_TTL: Code = of(16, Exactly(8));
pub(super) const PUSH_VLAN: Code = of(17, Exactly(8));
pub(super) const POP_VLAN: Code = of(18, Exactly(8));
pub(super) const PUSH_MPLS: Code = of(19, Exactly(8));
pub(super) const POP_MPLS: Code = of(20, Exactly(8));
pub(super) const SET_QUEUE: Code = of(21, Exactly(8));
pub(super) const GROUP: Code = of(22, Exactly(8));
pub(super) const SET_NW_TTL: Code = of(23, Exactly(8));
pub(super) const DEC_TTL: Code = of(24, Exactly(8));
pub(super) const SET_FIELD: Code = of(25, AtLeast(16));
pub(super) const COPY_FIELD: Code = of(28, AtLeast(20)).in_versions(6, 6);
pub(super) const METER: Code = of(29, Exactly(8)).in_versions(6, 6);
pub(super) const RESUBMIT: Code = nx(1, Exactly(16));
pub(super) const POP_QUEUE: Code = nx(5, Exactly(16));
pub(super) const REG_MOVE: Code = nx(6, AtLeast(24)).in_versions(4, 5);
pub(super) const REG_LOAD: Code = nx(7, Exactly(24)).in_versions(4, 5);
pub(super) const NOTE: Code = nx(8, AtLeast(16));
pub(super) const MULTIPATH: Code = nx(10, Exactly(32));
pub(super) const BUNDLE: Code = nx(12, AtLeast(32));
pub(super) const BUNDLE_LOAD: Code = nx(13, AtLeast(32));
pub(super) const RESUBMIT_TABLE: Code = nx(14, Exactly(16));
pub(super) const OUTPUT_REG: Code = nx(15, Exactly(24));
pub(super) const LEARN: Code = nx(16, AtLeast(32));
pub(super) const EXIT: Code = nx(17, Exactly(16));
pub(super) const FIN_TIMEOUT: Code = nx(19, Exactly(16));
pub(super) const CONTROLLER: Code = nx(20, Exactly(16));
pub(super) const DEC_TTL_IDS: Code = nx(21, AtLeast(16));
pub(super) const WRITE_METADATA: Code = nx(22, Exactly(32));
pub(super) const STACK_PUSH: Code = nx(27, Exactly(24));
pub(super) const STACK_POP: Code = nx(28, Exactly(24));
pub(super) const SAMPLE: Code = nx(29, Exactly(24));
pub(super) const OUTPUT_REG2: Code = nx(32, Exactly(24));
pub(super) const REG_LOAD2: Code = nx(33, AtLeast(16)).in_versions(4, 5);
pub(super) const CONJUNCTION: Code = nx(34, Exactly(16));
pub(super) const CT: Code = nx(35, AtLeast(24));
pub(super) const NAT: Code = nx(36, AtLeast(16));
pub(super) const CONTROLLER2: Code = nx(37, AtLeast(16));
pub(super) const SAMPLE2: Code = nx(38, Exactly(32));
pub(super) const OUTPUT_TRUNC: Code = nx(39, Exactly(16));
pub(super) const SAMPLE3: Code = nx(41, Exactly(32));
pub(super) const CLONE: Code = nx(42, AtLeast(16));
pub(super) const CT_CLEAR: Code = nx(43, Exactly(16));
pub(super) const RESUBMIT_TABLE_CT: Code = nx(44, Exactly(16));
pub(super) const LEARN2: Code = nx(45, AtLeast(40));
pub(super) const CHECK_PKT_LARGER: Code = nx(49, Exactly(24));
