//! Bridges, ports and tunnels, by way of the database of Open vSwitch.
