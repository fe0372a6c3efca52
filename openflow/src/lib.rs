//! OpenFlow 1.5 with the Nicira extensions, as Open vSwitch speaks it.
