//! CNI requests and the interfaces of containers.
