//! What people have made: classes and paint, with every step that led there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use protoseg::{core::check_name, picture::class_color};
use serde::{Deserialize, Serialize};

use super::paint::{Paint, UNPAINTED};
use crate::{
    error::{Answer, Failure},
    limits,
};

/// A class of the project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    pub id: u8,
    pub name: String,
    pub color: [u8; 3],
    #[serde(default)]
    pub hidden: bool,
    /// Whether the model had it before.
    #[serde(default)]
    pub base: bool,
}

/// Classes and paint.
#[derive(Debug, Default)]
pub struct Project {
    pub classes: Arc<Vec<Class>>,
    /// Of painted photos.
    pub paints: BTreeMap<u32, Arc<Paint>>,
    pub revision: u32,
    done: Vec<Step>,
    undone: Vec<Step>,
}

/// A change, with what was before and what is after it.
#[derive(Clone, Debug, Default)]
pub struct Step {
    classes: Option<[Arc<Vec<Class>>; 2]>,
    paints: Vec<(u32, [Option<Arc<Paint>>; 2])>,
}

/// What a change touched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    pub photos: Vec<u32>,
    pub classes: bool,
}

impl Project {
    /// As it was saved, without steps to undo.
    pub fn new(classes: Vec<Class>, paints: BTreeMap<u32, Arc<Paint>>) -> Self {
        Self { classes: Arc::new(classes), paints, revision: 1, ..Self::default() }
    }

    /// The class with an id.
    pub fn class(&self, id: u8) -> Answer<&Class> {
        let class = self.classes.iter().find(|class| class.id == id);
        class.ok_or_else(|| Failure::missing(format!("there is no class `{id}`")))
    }

    /// Whether there is something to undo, and to redo.
    pub fn can(&self) -> (bool, bool) {
        (!self.done.is_empty(), !self.undone.is_empty())
    }

    /// Carries out a step.
    pub fn change(&mut self, step: Step) -> Touched {
        let touched = self.apply(&step, 1);
        self.done.push(step);
        if self.done.len() > limits::STEPS {
            self.done.remove(0);
        }
        self.undone.clear();
        touched
    }

    /// Takes the last step back.
    pub fn undo(&mut self) -> Answer<Touched> {
        let step = self.done.pop().ok_or_else(|| Failure::conflict("there is nothing to undo"))?;
        let touched = self.apply(&step, 0);
        self.undone.push(step);
        Ok(touched)
    }

    /// Carries out again what was taken back last.
    pub fn redo(&mut self) -> Answer<Touched> {
        let step = self.undone.pop().ok_or_else(|| Failure::conflict("there is nothing to redo"))?;
        let touched = self.apply(&step, 1);
        self.done.push(step);
        Ok(touched)
    }

    fn apply(&mut self, step: &Step, side: usize) -> Touched {
        self.revision = self.revision.wrapping_add(1);
        if let Some(classes) = &step.classes {
            self.classes = Arc::clone(&classes[side]);
        }
        for (photo, paint) in &step.paints {
            match &paint[side] {
                Some(paint) => self.paints.insert(*photo, Arc::clone(paint)),
                None => self.paints.remove(photo),
            };
        }
        Touched {
            photos: step.paints.iter().map(|(photo, _)| *photo).collect(),
            classes: step.classes.is_some(),
        }
    }

    /// The step that paints `id` where `mask` is true.
    pub fn paint(&self, photo: u32, size: (usize, usize), mask: &[bool], id: u8) -> Step {
        let before = self.paints.get(&photo).cloned();
        let mut pixels = match &before {
            Some(paint) => paint.pixels(),
            None => vec![UNPAINTED; size.0 * size.1],
        };
        pixels.iter_mut().zip(mask).filter(|(_, is)| **is).for_each(|(pixel, _)| *pixel = id);
        let after = Paint::from_pixels(size.0, size.1, &pixels);
        let after = (!after.is_empty()).then(|| Arc::new(after));
        Step { classes: None, paints: vec![(photo, [before, after])] }
    }

    /// The step that adds a class, and its id.
    pub fn add_class(
        &self,
        name: &str,
        color: Option<[u8; 3]>,
        reserved: Option<&str>,
    ) -> Answer<(Step, u8)> {
        self.check_name(name, None, reserved)?;
        let taken: BTreeSet<u8> = self.classes.iter().map(|class| class.id).collect();
        // Ids of removed classes come last: an undone removal needs them.
        let highest = self.classes.iter().map(|class| class.id).max().unwrap_or(0);
        let mut ids = (highest + 1..=limits::CLASSES as u8).chain(1..=highest);
        let id = ids.find(|id| !taken.contains(id));
        let id = id
            .ok_or_else(|| Failure::conflict(format!("a project has at most {} classes", limits::CLASSES)))?;
        let color = color.unwrap_or_else(|| class_color(usize::from(id) - 1));
        let class = Class { id, name: name.to_string(), color, hidden: false, base: false };
        let after = self.classes.iter().cloned().chain([class]).collect();
        Ok((self.with_classes(after), id))
    }

    /// The step that changes a class.
    pub fn change_class(
        &self,
        id: u8,
        name: Option<&str>,
        color: Option<[u8; 3]>,
        hidden: Option<bool>,
        reserved: Option<&str>,
    ) -> Answer<Step> {
        let class = self.class(id)?;
        if let Some(name) = name {
            if class.base && name != class.name {
                return Err(Failure::conflict(format!("`{}` is one of the model's own classes", class.name)));
            }
            self.check_name(name, Some(id), reserved)?;
        }
        let mut after = self.classes.to_vec();
        for class in after.iter_mut().filter(|class| class.id == id) {
            class.name = name.map_or(std::mem::take(&mut class.name), str::to_string);
            class.color = color.unwrap_or(class.color);
            class.hidden = hidden.unwrap_or(class.hidden);
        }
        Ok(self.with_classes(after))
    }

    /// The step that removes a class and its paint.
    pub fn remove_class(&self, id: u8) -> Answer<Step> {
        let class = self.class(id)?;
        if class.base {
            return Err(Failure::conflict(format!("`{}` is one of the model's own classes", class.name)));
        }
        let after = self.classes.iter().filter(|class| class.id != id).cloned().collect();
        let mut step = self.with_classes(after);
        for (photo, paint) in &self.paints {
            if paint.counts().iter().any(|(painted, _)| *painted == id) {
                let without = paint.map(|painted| if painted == id { UNPAINTED } else { painted });
                let without = (!without.is_empty()).then(|| Arc::new(without));
                step.paints.push((*photo, [Some(Arc::clone(paint)), without]));
            }
        }
        Ok(step)
    }

    fn with_classes(&self, after: Vec<Class>) -> Step {
        Step { classes: Some([Arc::clone(&self.classes), Arc::new(after)]), paints: Vec::new() }
    }

    fn check_name(&self, name: &str, own: Option<u8>, reserved: Option<&str>) -> Answer<()> {
        check_name(name).map_err(|error| Failure::unfit(error.to_string()))?;
        let is_taken = self.classes.iter().any(|class| class.name == name && Some(class.id) != own);
        match is_taken || reserved == Some(name) {
            true => Err(Failure::conflict(format!("class `{name}` is already there"))),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_can_be_taken_back_and_made_again() {
        let mut project = Project::default();
        let (step, id) = project.add_class("duck", None, None).unwrap();
        project.change(step);
        let step = project.paint(3, (2, 2), &[true, false, false, true], id);
        assert_eq!(project.change(step), Touched { photos: vec![3], classes: false });
        let painted = project.paints[&3].pixels();
        assert_eq!(painted, [id, 0, 0, id]);
        let step = project.remove_class(id).unwrap();
        project.change(step);
        assert!(project.classes.is_empty() && project.paints.is_empty());
        assert_eq!(project.undo().unwrap(), Touched { photos: vec![3], classes: true });
        assert_eq!((project.paints[&3].pixels(), project.classes[0].name.as_str()), (painted, "duck"));
        project.undo().unwrap();
        assert!(project.paints.is_empty());
        project.redo().unwrap();
        assert_eq!(project.paints[&3].counts(), [(id, 2)]);
        let step = project.paint(3, (2, 2), &[true; 4], UNPAINTED);
        project.change(step);
        assert!(project.paints.is_empty() && project.redo().is_err());
        assert_eq!(project.revision, 7);
    }

    #[test]
    fn names_are_unique_and_ids_of_removed_classes_rest() {
        let mut project = Project::default();
        for name in ["a", "b"] {
            let (step, _) = project.add_class(name, None, Some("background")).unwrap();
            project.change(step);
        }
        for wrong in ["a", "background", "", "a\u{1b}"] {
            assert!(project.add_class(wrong, None, Some("background")).is_err(), "{wrong}");
        }
        assert!(project.change_class(2, Some("a"), None, None, None).is_err());
        assert!(project.change_class(2, Some("b"), Some([1, 2, 3]), Some(true), None).is_ok());
        let step = project.remove_class(1).unwrap();
        project.change(step);
        assert_eq!(project.add_class("c", None, None).unwrap().1, 3);
        while let Ok((step, _)) = project.add_class(&format!("n{}", project.classes.len()), None, None) {
            project.change(step);
        }
        assert_eq!(project.classes.len(), limits::CLASSES);
        assert!(project.classes.iter().all(|class| (1..=253).contains(&class.id)));
    }
}
