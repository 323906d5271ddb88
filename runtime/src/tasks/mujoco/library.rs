//! The shared library: the functions that we call, and where the fields lie that we read.
//!
//! The offsets are those of `mjModel` and `mjData` of [`super::install::VERSION`], as `offsetof` gives them on every 64-bit
//! system; `mj_version` is asked before anything else is touched.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;

use super::{Installed, MujocoError, install};

/// Offsets in `mjModel`, in bytes.
pub(super) mod model {
    pub(crate) const NQ: usize = 0;
    pub(crate) const NV: usize = 8;
    pub(crate) const NU: usize = 16;
    pub(crate) const NBODY: usize = 48;
    pub(crate) const NJNT: usize = 88;
    pub(crate) const NGEOM: usize = 136;
    pub(crate) const NSENSORDATA: usize = 744;
    const OPTION: usize = 792;
    pub(crate) const INTEGRATOR: usize = OPTION + 248;
    pub(crate) const DISABLE: usize = OPTION + 280;
    pub(crate) const BODY_MASS: usize = 1944;
    pub(crate) const BODY_INERTIA: usize = 1960;
    pub(crate) const JNT_LIMITED: usize = 2152;
    pub(crate) const JNT_RANGE: usize = 2224;
    pub(crate) const DOF_DAMPING: usize = 2336;
    pub(crate) const GEOM_TYPE: usize = 2416;
    pub(crate) const GEOM_BODY: usize = 2448;
    pub(crate) const GEOM_SIZE: usize = 2528;
    pub(crate) const GEOM_POS: usize = 2552;
    pub(crate) const GEOM_FRICTION: usize = 2568;
    pub(crate) const ACTUATOR_GEAR: usize = 5000;
    pub(crate) const SENSOR_DIM: usize = 5096;
    pub(crate) const SENSOR_ADR: usize = 5104;
}

/// Offsets in `mjData`, in bytes.
pub(super) mod data {
    /// An array of [`WARNINGS`](super::WARNINGS) pairs of ints: what the last warning was about, and how many there were.
    pub(crate) const WARNING: usize = 160_264;
    pub(crate) const NCON: usize = 160_560;
    pub(crate) const TIME: usize = 160_648;
    pub(crate) const ENERGY: usize = 160_656;
    pub(crate) const QPOS: usize = 160_688;
    pub(crate) const QVEL: usize = 160_696;
    pub(crate) const QACC_WARMSTART: usize = 160_720;
    pub(crate) const CTRL: usize = 160_736;
    pub(crate) const SENSORDATA: usize = 160_808;
    pub(crate) const XMAT: usize = 160_856;
    pub(crate) const GEOM_XPOS: usize = 160_896;
    pub(crate) const GEOM_XMAT: usize = 160_904;
}

/// `mjSTATE_INTEGRATION`: everything that a step depends on.
pub(super) const STATE: c_int = 16_383;
/// `mjNWARNING`.
pub(super) const WARNINGS: usize = 7;
/// `mjtWarning` of numbers that are NaN or too large. MuJoCo resets the state where it finds one, so nothing else shows it.
pub(super) const DIVERGED: [(usize, &str); 4] = [(3, "position"), (4, "velocity"), (5, "acceleration"), (6, "control")];
/// `mjDSBL_ACTUATION`.
pub(super) const NO_ACTUATION: c_int = 2048;
/// `mjtObj`.
pub(super) const BODY: c_int = 1;
pub(super) const JOINT: c_int = 3;
pub(super) const GEOM: c_int = 5;
pub(super) const SENSOR: c_int = 20;
/// `mjtGeom`.
pub(super) const PLANE: c_int = 0;
pub(super) const SPHERE: c_int = 2;
pub(super) const CAPSULE: c_int = 3;
pub(super) const ELLIPSOID: c_int = 4;
pub(super) const CYLINDER: c_int = 5;
pub(super) const BOX: c_int = 6;

type Of2 = unsafe extern "C" fn(*mut c_void, *mut c_void);
type LogHandler = unsafe extern "C" fn(*const LogMessage);

/// `mjLogMessage`, as far as we read it.
#[repr(C)]
struct LogMessage {
    level: c_int,
    topic: c_int,
    subject: [c_char; 1024],
}

#[derive(Debug)]
pub(super) struct Library {
    pub(super) load: unsafe extern "C" fn(*const c_char, *const c_void, *mut c_char, c_int) -> *mut c_void,
    pub(super) delete_model: unsafe extern "C" fn(*mut c_void),
    pub(super) make_data: unsafe extern "C" fn(*const c_void) -> *mut c_void,
    pub(super) delete_data: unsafe extern "C" fn(*mut c_void),
    pub(super) reset: Of2,
    pub(super) forward: Of2,
    pub(super) step: Of2,
    pub(super) step1: Of2,
    pub(super) step2: Of2,
    pub(super) set_const: Of2,
    pub(super) energy_pos: Of2,
    pub(super) energy_vel: Of2,
    pub(super) state_size: unsafe extern "C" fn(*const c_void, c_int) -> c_int,
    pub(super) get_state: unsafe extern "C" fn(*const c_void, *const c_void, *mut f64, c_int),
    pub(super) set_state: unsafe extern "C" fn(*const c_void, *mut c_void, *const f64, c_int),
    pub(super) name2id: unsafe extern "C" fn(*const c_void, c_int, *const c_char) -> c_int,
    /// Keeps the functions where they are.
    _library: libloading::Library,
}

/// The library, opened once for the process.
pub(super) fn library(installed: &Installed) -> Result<&'static Library, MujocoError> {
    static LIBRARY: OnceLock<Result<Library, MujocoError>> = OnceLock::new();
    LIBRARY.get_or_init(|| open(&installed.library)).as_ref().map_err(Clone::clone)
}

fn open(path: &Path) -> Result<Library, MujocoError> {
    let shown = path.display().to_string();
    let fail = |e: libloading::Error| MujocoError::Open { path: shown.clone(), reason: e.to_string() };
    // SAFETY: the library is MuJoCo's, whose hash was verified at installation; its initialisers have no conditions.
    let library = unsafe { libloading::Library::new(path) }.map_err(fail)?;
    // SAFETY: the signature of every version.
    let version = unsafe { library.get::<unsafe extern "C" fn() -> c_int>(b"mj_version\0").map_err(fail)?() };
    if version != install::VERSION_NUMBER {
        let found = format!("{}.{}.{}", version / 1_000_000, version / 1000 % 1000, version % 1000);
        return Err(MujocoError::Version { path: shown, found, wanted: install::VERSION.into() });
    }
    macro_rules! function {
        ($name:literal) => {
            // SAFETY: the version is the one whose header has this signature.
            *unsafe { library.get(concat!($name, "\0").as_bytes()) }.map_err(fail)?
        };
    }
    let set_log: unsafe extern "C" fn(Option<LogHandler>) -> Option<LogHandler> = function!("mju_setLogHandler");
    // SAFETY: the handler is a function of the program's, and safe to call from any thread.
    unsafe { set_log(Some(log)) };
    Ok(Library {
        load: function!("mj_loadXML"),
        delete_model: function!("mj_deleteModel"),
        make_data: function!("mj_makeData"),
        delete_data: function!("mj_deleteData"),
        reset: function!("mj_resetData"),
        forward: function!("mj_forward"),
        step: function!("mj_step"),
        step1: function!("mj_step1"),
        step2: function!("mj_step2"),
        set_const: function!("mj_setConst"),
        energy_pos: function!("mj_energyPos"),
        energy_vel: function!("mj_energyVel"),
        state_size: function!("mj_stateSize"),
        get_state: function!("mj_getState"),
        set_state: function!("mj_setState"),
        name2id: function!("mj_name2id"),
        _library: library,
    })
}

/// Otherwise MuJoCo writes a file into the current folder. Warnings are counted in the state: `Physics::diverged`.
unsafe extern "C" fn log(message: *const LogMessage) {
    const ERROR: c_int = 3;
    // SAFETY: MuJoCo gives a message that lives during the call, with a text that ends.
    let (level, text) = unsafe { ((*message).level, CStr::from_ptr((*message).subject.as_ptr())) };
    if level >= ERROR {
        eprintln!("MuJoCo: {}", text.to_string_lossy());
    }
}
