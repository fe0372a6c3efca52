//! The CNI plugin of Fabric, and the types it shares with the agent.
