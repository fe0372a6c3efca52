//! Classes of pods: those of one namespace with the same labels have the same policies about them.
//!
//! What the policies say about a class is worked out when it is first asked, and forgotten when one of them changes:
//! of the pods of a large cluster a node asks about its own.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::label::Labels;
use crate::name::Name;
use crate::object::Pod;
use crate::rules::Program;

/// The class of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClassId(u32);

/// The classes that have pods.
#[derive(Clone, Debug, Default)]
pub(super) struct Classes {
    ids: BTreeMap<(Name, Labels), ClassId>,
    slots: Vec<Slot>,
    free: Vec<ClassId>,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    pods: u32,
    program: OnceLock<Box<Program>>,
}

impl Classes {
    /// Counts one pod more, and says which class it is of.
    pub(super) fn enter(&mut self, pod: &Pod) -> ClassId {
        let key = (pod.reference.namespace.clone(), pod.labels.clone());
        let id = match self.ids.get(&key) {
            Some(id) => *id,
            None => {
                let id = self.vacant();
                self.ids.insert(key, id);
                id
            }
        };
        if let Some(slot) = self.slot_mut(id) {
            slot.pods += 1;
        }
        id
    }

    fn vacant(&mut self) -> ClassId {
        self.free.pop().unwrap_or_else(|| {
            let id = ClassId(u32::try_from(self.slots.len()).unwrap_or(u32::MAX));
            self.slots.push(Slot::default());
            id
        })
    }

    fn slot_mut(&mut self, ClassId(id): ClassId) -> Option<&mut Slot> {
        usize::try_from(id).ok().and_then(|id| self.slots.get_mut(id))
    }

    /// Counts one pod less.
    pub(super) fn leave(&mut self, pod: &Pod, id: ClassId) {
        let Some(slot) = self.slot_mut(id) else { return };
        slot.pods = slot.pods.saturating_sub(1);
        if slot.pods == 0 {
            *slot = Slot::default();
            self.ids.remove(&(pod.reference.namespace.clone(), pod.labels.clone()));
            self.free.push(id);
        }
    }

    /// What the policies say about a class; `work_out` is asked where that is not known.
    pub(super) fn program(
        &self,
        ClassId(id): ClassId,
        work_out: impl FnOnce() -> Program,
    ) -> Option<&Program> {
        let slot = usize::try_from(id).ok().and_then(|id| self.slots.get(id))?;
        Some(slot.program.get_or_init(|| Box::new(work_out())))
    }

    /// Forgets what the policies say about the classes of a namespace that `concerns` holds for.
    pub(super) fn forget_of(&mut self, namespace: &Name, concerns: impl Fn(&Labels) -> bool) {
        let lowest = (namespace.clone(), Labels::default());
        let own = self.ids.range(lowest..).take_while(|((of, _), _)| of == namespace);
        let ids: Vec<ClassId> = own.filter(|((_, labels), _)| concerns(labels)).map(|(_, id)| *id).collect();
        for id in ids {
            if let Some(slot) = self.slot_mut(id) {
                slot.program.take();
            }
        }
    }

    /// Forgets what the policies say about every class.
    pub(super) fn forget_all(&mut self) {
        for slot in &mut self.slots {
            slot.program.take();
        }
    }
}
