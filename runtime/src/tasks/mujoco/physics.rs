//! A model of MuJoCo's and its state: the fields that tasks read and write, as slices.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ops::Range;
use std::path::Path;

use super::library::{self, Library, data, model};
use super::{Installed, MujocoError};
use crate::tasks::scene::{Form, Part, Scene, Shape, hull};
use crate::tasks::{Perturbation, TaskError};

#[derive(Debug)]
pub(super) struct Physics {
    library: &'static Library,
    model: *mut c_void,
    data: *mut c_void,
    /// Wakes the actuators up to the positions and velocities first, as the suite does for one-step integrators.
    split: bool,
}

// SAFETY: model and data belong to this value alone, and MuJoCo keeps nothing about threads in them.
unsafe impl Send for Physics {}

impl Physics {
    pub(super) fn open(installed: &Installed, path: &Path) -> Result<Physics, MujocoError> {
        let library = library::library(installed)?;
        let shown = path.display().to_string();
        let fail = |reason: String| MujocoError::Model { path: shown.clone(), reason };
        let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|e| fail(e.to_string()))?;
        let mut error: [c_char; 1024] = [0; 1024];
        // SAFETY: a text that ends, and a place for an error with its size.
        let model = unsafe { (library.load)(name.as_ptr(), std::ptr::null(), error.as_mut_ptr(), 1024) };
        if model.is_null() {
            let text: Vec<u8> = error.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
            return Err(fail(String::from_utf8_lossy(&text).into_owned()));
        }
        // SAFETY: a model that was just loaded.
        let data = unsafe { (library.make_data)(model) };
        if data.is_null() {
            // SAFETY: nobody else has it.
            unsafe { (library.delete_model)(model) };
            return Err(fail("no memory for its state".into()));
        }
        let mut physics = Physics { library, model, data, split: false };
        // `mjINT_EULER` is 0.
        physics.split = physics.integer(model::INTEGRATOR) == 0;
        Ok(physics)
    }

    fn integer(&self, offset: usize) -> c_int {
        // SAFETY: an int of the model lies there.
        unsafe { self.model.byte_add(offset).cast::<c_int>().read() }
    }

    pub(super) fn count(&self, offset: usize) -> usize {
        // SAFETY: a 64-bit size of the model lies there.
        unsafe { self.model.byte_add(offset).cast::<i64>().read() as usize }
    }

    /// An array of numbers of the model.
    pub(super) fn of_model(&mut self, offset: usize, len: usize) -> &mut [f64] {
        // SAFETY: the field is a pointer to at least `len` numbers, which live as long as the model.
        unsafe { std::slice::from_raw_parts_mut(self.model.byte_add(offset).cast::<*mut f64>().read(), len) }
    }

    /// An array of numbers of the state.
    pub(super) fn of_data(&self, offset: usize, len: usize) -> &[f64] {
        // SAFETY: as above, of the state; nobody writes it while it is borrowed.
        unsafe { std::slice::from_raw_parts(self.data.byte_add(offset).cast::<*const f64>().read(), len) }
    }

    pub(super) fn of_data_mut(&mut self, offset: usize, len: usize) -> &mut [f64] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.data.byte_add(offset).cast::<*mut f64>().read(), len) }
    }

    pub(super) fn position(&self) -> &[f64] {
        self.of_data(data::QPOS, self.count(model::NQ))
    }

    pub(super) fn velocity(&self) -> &[f64] {
        self.of_data(data::QVEL, self.count(model::NV))
    }

    pub(super) fn sensors(&self) -> &[f64] {
        self.of_data(data::SENSORDATA, self.count(model::NSENSORDATA))
    }

    /// The range of each joint that has one.
    pub(super) fn ranges(&mut self) -> Vec<Option<(f64, f64)>> {
        let joints = self.count(model::NJNT);
        // SAFETY: a pointer to a byte for each joint.
        let limited =
            unsafe { std::slice::from_raw_parts(self.model.byte_add(model::JNT_LIMITED).cast::<*const u8>().read(), joints) }
                .to_vec();
        let ranges = self.of_model(model::JNT_RANGE, 2 * joints);
        limited.iter().zip(ranges.chunks(2)).map(|(l, r)| (*l == 1).then_some((r[0], r[1]))).collect()
    }

    /// Where the numbers of a sensor are.
    pub(super) fn sensor(&self, task: &str, name: &str) -> Result<Range<usize>, MujocoError> {
        let id = self.id(task, library::SENSOR, "sensor", name)?;
        // SAFETY: a pointer to an int for each sensor.
        let of = |offset| unsafe { self.model.byte_add(offset).cast::<*const c_int>().read().add(id).read() } as usize;
        let start = of(model::SENSOR_ADR);
        Ok(start..start + of(model::SENSOR_DIM))
    }

    pub(super) fn id(&self, task: &str, kind: c_int, what: &'static str, name: &str) -> Result<usize, MujocoError> {
        let missing = || MujocoError::Name { task: task.into(), what, name: name.into() };
        let text = CString::new(name).map_err(|_| missing())?;
        // SAFETY: a model and a text that ends.
        let id = unsafe { (self.library.name2id)(self.model, kind, text.as_ptr()) };
        usize::try_from(id).map_err(|_| missing())
    }

    pub(super) fn contacts(&self) -> c_int {
        // SAFETY: an int of the state lies there.
        unsafe { self.data.byte_add(data::NCON).cast::<c_int>().read() }
    }

    pub(super) fn set_time(&mut self, time: f64) {
        // SAFETY: a number of the state lies there.
        unsafe { self.data.byte_add(data::TIME).cast::<f64>().write(time) }
    }

    fn call(&mut self, f: unsafe extern "C" fn(*mut c_void, *mut c_void)) {
        // SAFETY: the model and its own state.
        unsafe { f(self.model, self.data) }
    }

    pub(super) fn reset(&mut self) {
        self.call(self.library.reset);
        self.forward();
    }

    /// Everything that follows from positions and velocities, with motors off: what the suite does around resets.
    pub(super) fn forward(&mut self) {
        let flags = self.integer(model::DISABLE);
        // SAFETY: the same int that was read.
        let set = |flags| unsafe { self.model.byte_add(model::DISABLE).cast::<c_int>().write(flags) };
        set(flags | library::NO_ACTUATION);
        self.call(self.library.forward);
        // SAFETY: as above.
        unsafe { self.model.byte_add(model::DISABLE).cast::<c_int>().write(flags) };
    }

    /// The suite's step: afterwards positions and velocities, and all that follows from them, belong together.
    pub(super) fn step(&mut self, times: usize) {
        let whole = if self.split {
            self.call(self.library.step2);
            times - 1
        } else {
            times
        };
        (0..whole).for_each(|_| self.call(self.library.step));
        self.call(self.library.step1);
    }

    /// MuJoCo's counters of warnings, since the last reset.
    fn warnings(&mut self) -> &mut [[c_int; 2]; library::WARNINGS] {
        // SAFETY: this array of the state lies there.
        unsafe { &mut *self.data.byte_add(data::WARNING).cast() }
    }

    /// An error where MuJoCo has found a bad number since the last reset. It has then set the state back by itself.
    pub(super) fn diverged(&mut self, task: &str) -> Result<(), TaskError> {
        let warnings = self.warnings();
        match library::DIVERGED.iter().find(|(kind, _)| warnings[*kind][1] > 0) {
            Some((kind, what)) => Err(TaskError::Diverged { task: task.into(), what: format!("{what} {}", warnings[*kind][0]) }),
            None => Ok(()),
        }
    }

    fn scale(&mut self, offset: usize, width: usize, of: usize, factor: f64) {
        let len = width * self.count(of);
        self.of_model(offset, len).iter_mut().for_each(|x| *x *= factor);
    }

    /// A change of all bodies, joints, motors or surfaces. False for changes that are not the model's.
    pub(super) fn change(&mut self, change: Perturbation) -> bool {
        match change {
            Perturbation::Mass(factor) => {
                self.scale(model::BODY_MASS, 1, model::NBODY, factor);
                self.scale(model::BODY_INERTIA, 3, model::NBODY, factor);
                self.set_const();
            }
            Perturbation::Damping(factor) => self.scale(model::DOF_DAMPING, 1, model::NV, factor),
            Perturbation::Actuator(factor) => self.scale(model::ACTUATOR_GEAR, 6, model::NU, factor),
            Perturbation::Friction(factor) => self.scale(model::GEOM_FRICTION, 3, model::NGEOM, factor),
            Perturbation::Kick(_) | Perturbation::Delay(_) | Perturbation::Mask(_) => return false,
        }
        true
    }

    /// To be called when masses have changed; it disturbs the state.
    pub(super) fn set_const(&mut self) {
        self.call(self.library.set_const);
    }

    pub(super) fn energy(&mut self) -> f64 {
        self.call(self.library.energy_pos);
        self.call(self.library.energy_vel);
        // SAFETY: two numbers of the state lie there.
        let [potential, kinetic] = unsafe { self.data.byte_add(data::ENERGY).cast::<[f64; 2]>().read() };
        potential + kinetic
    }

    fn integers(&self, offset: usize, len: usize) -> &[c_int] {
        // SAFETY: the field is a pointer to at least `len` ints, which live as long as the model.
        unsafe { std::slice::from_raw_parts(self.model.byte_add(offset).cast::<*const c_int>().read(), len) }
    }

    /// What it looks like along two of the three axes. Meshes and fields of heights are left out.
    pub(super) fn scene(&mut self, [across, up]: [usize; 2], target: Option<usize>) -> Scene {
        let count = self.count(model::NGEOM);
        let sizes = self.of_model(model::GEOM_SIZE, 3 * count).to_vec();
        let (kinds, bodies) = (self.integers(model::GEOM_TYPE, count), self.integers(model::GEOM_BODY, count));
        let (places, turns) = (self.of_data(data::GEOM_XPOS, 3 * count), self.of_data(data::GEOM_XMAT, 9 * count));
        let mut scene = Scene::default();
        for geom in 0..count {
            let (size, place, turn) = (&sizes[3 * geom..], &places[3 * geom..], &turns[9 * geom..]);
            let part = match bodies[geom] {
                _ if target == Some(geom) => Part::Target,
                0 => Part::World,
                _ => Part::Body,
            };
            // A point of the shape's own, along its three axes.
            let at = |own: [f64; 3]| [across, up].map(|i| place[i] + (0..3).map(|k| turn[3 * i + k] * own[k]).sum::<f64>());
            let middle = at([0.0; 3]);
            match kinds[geom] {
                // A plane is seen where it is the ground.
                library::PLANE if up == 2 && turn[8] > 0.99 => scene.ground = Some(middle[1]),
                library::SPHERE => scene.capsule(part, middle, middle, size[0]),
                library::CAPSULE | library::CYLINDER => {
                    scene.capsule(part, at([0.0, 0.0, -size[1]]), at([0.0, 0.0, size[1]]), size[0]);
                }
                library::ELLIPSOID => {
                    let ring = |a: f64| {
                        let (s, c) = a.sin_cos();
                        [
                            at([size[0] * c, size[1] * s, 0.0]),
                            at([size[0] * c, 0.0, size[2] * s]),
                            at([0.0, size[1] * c, size[2] * s]),
                        ]
                    };
                    let points = (0..24).flat_map(|i| ring(f64::from(i) * std::f64::consts::TAU / 24.0)).collect();
                    scene.shapes.push(Shape { form: Form::Polygon(hull(points)), part });
                }
                library::BOX => {
                    let corner = |i: usize| at([0, 1, 2].map(|k| if i >> k & 1 == 0 { -size[k] } else { size[k] }));
                    scene.shapes.push(Shape { form: Form::Polygon(hull((0..8).map(corner).collect())), part });
                }
                _ => {}
            }
        }
        scene
    }

    fn state_len(&self) -> usize {
        // SAFETY: a model.
        unsafe { (self.library.state_size)(self.model, library::STATE) as usize }
    }

    /// The state, and the sensors: those of forces are not a function of it.
    pub(super) fn save(&self) -> Vec<f64> {
        let mut state = vec![0.0; self.state_len()];
        // SAFETY: a place of the size that was asked for.
        unsafe { (self.library.get_state)(self.model, self.data, state.as_mut_ptr(), library::STATE) };
        state.extend(self.sensors());
        state
    }

    pub(super) fn saved_len(&self) -> usize {
        self.state_len() + self.count(model::NSENSORDATA)
    }

    /// `state` has the length of [`Physics::saved_len`].
    pub(super) fn restore(&mut self, state: &[f64]) {
        let (state, sensors) = state.split_at(self.state_len());
        // SAFETY: as many numbers as the state has.
        unsafe { (self.library.set_state)(self.model, self.data, state.as_ptr(), library::STATE) };
        *self.warnings() = Default::default();
        self.call(self.library.step1);
        self.of_data_mut(data::SENSORDATA, sensors.len()).copy_from_slice(sensors);
    }
}

impl Drop for Physics {
    fn drop(&mut self) {
        // SAFETY: made by this value, and not used afterwards.
        unsafe {
            (self.library.delete_data)(self.data);
            (self.library.delete_model)(self.model);
        }
    }
}
