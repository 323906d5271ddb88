//! A trained model for programs in C, C++ and everything that calls C: load a run, plan, free it.
//!
//! Functions that can fail write a text into the caller's buffer, cut off to its length. A policy is used by one thread at a time.

use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use runtime::device::{Device, Wanted};
use runtime::policy::Policy;
use runtime::program::Compute;
use runtime::run::Run;

/// A trained model that acts.
pub struct WmPolicy(Policy);

impl std::fmt::Debug for WmPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WmPolicy")
    }
}

/// Loads the newest checkpoint of a run's folder. `device` is where it computes: "cpu", "cuda", "vulkan:1" or "auto"; null is
/// the processor. Null, with a text in `error`, where that fails.
///
/// # Safety
/// `run` is a text that ends with a zero, as is `device` unless it is null; `error` is null or has room for `error_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wm_load(
    run: *const c_char,
    device: *const c_char,
    error: *mut c_char,
    error_len: usize,
) -> *mut WmPolicy {
    // SAFETY: as the caller promises.
    let (path, device) = unsafe { (path(run), text(device)) };
    let load = || {
        let path = path.ok_or("no folder was given")?;
        let mut run = Run::open(&path).map_err(|e| e.to_string())?;
        run.config.compute.device = chosen(device)?;
        run.policy().map_err(|e| e.to_string())
    };
    // SAFETY: as the caller promises.
    unsafe { handed_out(load, error, error_len) }
}

/// Loads a compiled model (`wmc compile` writes it) and a checkpoint's folder of a training of the same model: neither needs
/// the model's text. `device` is where it computes, one that it was compiled for; null is the processor. Null, with a text in
/// `error`, where that fails.
///
/// # Safety
/// `artefact` and `checkpoint` are texts that end with a zero, as is `device` unless it is null; `error` is null or has room for
/// `error_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wm_load_artefact(
    artefact: *const c_char,
    checkpoint: *const c_char,
    seed: u64,
    device: *const c_char,
    error: *mut c_char,
    error_len: usize,
) -> *mut WmPolicy {
    // SAFETY: as the caller promises.
    let (artefact, checkpoint, device) = unsafe { (path(artefact), path(checkpoint), text(device)) };
    let load = || {
        let artefact = artefact.ok_or("no artefact was given")?;
        let checkpoint = checkpoint.ok_or("no checkpoint was given")?;
        let compute = Compute { device: chosen(device)?, ..Compute::default() };
        Policy::load(&artefact, &checkpoint, seed, compute).map_err(|e| e.to_string())
    };
    // SAFETY: as the caller promises.
    unsafe { handed_out(load, error, error_len) }
}

/// A text, unless it is null.
///
/// # Safety
/// `text` is null or ends with a zero.
unsafe fn text(text: *const c_char) -> Option<String> {
    // SAFETY: as the caller promises.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// A path, unless it is null.
///
/// # Safety
/// `given` is null or ends with a zero.
unsafe fn path(given: *const c_char) -> Option<PathBuf> {
    if given.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    let bytes = unsafe { CStr::from_ptr(given) };
    // A path is any bytes on Unix.
    #[cfg(unix)]
    return Some(PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(bytes.to_bytes())));
    #[cfg(not(unix))]
    Some(PathBuf::from(bytes.to_string_lossy().into_owned()))
}

/// The device of that name, if it is there.
fn chosen(device: Option<String>) -> Result<Device, String> {
    let wanted: Wanted = device.map_or(Ok(Wanted::default()), |name| name.parse())?;
    wanted.choose().map_err(|e| e.to_string())
}

/// A policy for the caller to keep, or null with a text.
///
/// # Safety
/// `error` is null or has room for `error_len` bytes.
unsafe fn handed_out(load: impl FnOnce() -> Result<Policy, String>, error: *mut c_char, error_len: usize) -> *mut WmPolicy {
    match guarded(load) {
        Ok(policy) => Box::into_raw(Box::new(WmPolicy(policy))),
        Err(text) => {
            // SAFETY: as the caller promises.
            unsafe { tell(&text, error, error_len) };
            std::ptr::null_mut()
        }
    }
}

/// The action for an observation, in -1..1; what was observed before counts. Zero, or one with a text in `error`: then the policy
/// remembers what it did before the call.
///
/// # Safety
/// `policy` comes from `wm_load`; the arrays have as many numbers as is said; `error` is null or has room for `error_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wm_plan(
    policy: *mut WmPolicy,
    observation: *const f64,
    observation_len: usize,
    action: *mut f64,
    action_len: usize,
    error: *mut c_char,
    error_len: usize,
) -> c_int {
    // SAFETY: as the caller promises; null is no policy.
    let Some(WmPolicy(policy)) = (unsafe { policy.as_mut() }) else {
        // SAFETY: as the caller promises.
        unsafe { tell("no policy was given", error, error_len) };
        return 1;
    };
    let plan = || {
        if observation.is_null() || action.is_null() {
            return Err("no array was given".to_string());
        }
        if action_len != policy.action_size() {
            return Err(format!("an action has {} numbers, there is room for {action_len}", policy.action_size()));
        }
        // SAFETY: as the caller promises.
        let seen = unsafe { std::slice::from_raw_parts(observation, observation_len) };
        let chosen = policy.plan(seen).map_err(|e| e.to_string())?;
        // SAFETY: as the caller promises, and the length is the one that was asked for.
        unsafe { std::slice::from_raw_parts_mut(action, action_len) }.copy_from_slice(&chosen);
        Ok(())
    };
    match guarded(plan) {
        Ok(()) => 0,
        Err(text) => {
            // SAFETY: as the caller promises.
            unsafe { tell(&text, error, error_len) };
            1
        }
    }
}

/// What followed from the last action: its reward, and whether it ended the episode for good (a time limit does not). Models that
/// act on the reward of the step before must be told before the next `wm_plan`; others need not. Zero, or one with a text in
/// `error`.
///
/// # Safety
/// `policy` comes from `wm_load`; `error` is null or has room for `error_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wm_outcome(
    policy: *mut WmPolicy,
    reward: f64,
    terminal: bool,
    error: *mut c_char,
    error_len: usize,
) -> c_int {
    // SAFETY: as the caller promises; null is no policy.
    let told = match unsafe { policy.as_mut() } {
        Some(WmPolicy(policy)) => guarded(|| policy.outcome(reward, terminal).map_err(|e| e.to_string())),
        None => Err("no policy was given".to_string()),
    };
    match told {
        Ok(()) => 0,
        Err(text) => {
            // SAFETY: as the caller promises.
            unsafe { tell(&text, error, error_len) };
            1
        }
    }
}

/// Whether the model acts on the reward of the step before, which `wm_outcome` tells.
///
/// # Safety
/// `policy` comes from `wm_load`, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wm_needs_outcome(policy: *const WmPolicy) -> bool {
    // SAFETY: as the caller promises.
    unsafe { policy.as_ref() }.is_some_and(|p| p.0.needs_outcome())
}

/// Forgets what was observed: the next observation is an episode's first. Zero, or one where there is no policy or its device
/// has failed.
///
/// # Safety
/// `policy` comes from `wm_load`, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wm_reset(policy: *mut WmPolicy) -> c_int {
    // SAFETY: as the caller promises.
    let Some(WmPolicy(policy)) = (unsafe { policy.as_mut() }) else { return 1 };
    c_int::from(guarded(|| policy.reset().map_err(|e| e.to_string())).is_err())
}

/// How many numbers an observation has.
///
/// # Safety
/// `policy` comes from `wm_load`, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wm_observation_size(policy: *const WmPolicy) -> usize {
    // SAFETY: as the caller promises.
    unsafe { policy.as_ref() }.map_or(0, |p| p.0.observation_size())
}

/// How many numbers an action has.
///
/// # Safety
/// `policy` comes from `wm_load`, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wm_action_size(policy: *const WmPolicy) -> usize {
    // SAFETY: as the caller promises.
    unsafe { policy.as_ref() }.map_or(0, |p| p.0.action_size())
}

/// Frees a policy. Null is fine.
///
/// # Safety
/// `policy` comes from `wm_load` and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wm_free(policy: *mut WmPolicy) {
    if !policy.is_null() {
        // SAFETY: as the caller promises.
        drop(unsafe { Box::from_raw(policy) });
    }
}

/// A panic ends at the border to another language.
fn guarded<T>(f: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|_| Err("a fault inside of wmc".into()))
}

/// Writes a text with a zero at its end, cut off to what there is room for.
///
/// # Safety
/// `error` is null or has room for `len` bytes.
unsafe fn tell(text: &str, error: *mut c_char, len: usize) {
    if error.is_null() || len == 0 {
        return;
    }
    let count = text.len().min(len - 1);
    // SAFETY: as the caller promises; the text is no longer than the room.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), error, count);
        error.add(count).write(0);
    }
}
