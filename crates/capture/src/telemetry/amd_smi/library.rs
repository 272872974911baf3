//! The functions of AMD's library, each behind a safe one.
#![expect(
    unsafe_code,
    reason = "a library that is loaded at run time is called by its C interface"
)]

use std::{ffi::c_void, path::Path};

use libloading::Library;

type Handle = *mut c_void;
type Status = u32;

const SUCCESS: Status = 0;
/// Value of `AMDSMI_INIT_AMD_GPUS` in `amdsmi.h`.
const INIT_AMD_GPUS: u64 = 1 << 1;
/// More sockets than a machine has.
const SOCKETS_MAX: u32 = 256;
/// Values of `AMDSMI_TEMPERATURE_TYPE_HOTSPOT` and `_VRAM`, and of `AMDSMI_TEMP_CURRENT`.
const TEMPERATURE_HOTSPOT: u32 = 1;
const VRAM_TEMPERATURE: u32 = 2;
const TEMPERATURE_CURRENT: u32 = 0;
/// Values of `AMDSMI_CLK_TYPE_SYS` and `_MEM`.
const COMPUTE_CLOCK: u32 = 0;
const MEMORY_CLOCK: u32 = 4;
/// Value of `AMDSMI_MEM_TYPE_VRAM` in `amdsmi.h`.
const MEMORY_VRAM: u32 = 0;
/// Structures grow from version to version: what is handed over has room for any.
const STRUCTURE_MAX_BYTES: usize = 4096;

pub(super) struct AmdSmi {
    library: Library,
}

impl AmdSmi {
    /// Loads and starts it; `None` where it is not there or finds no driver.
    pub(super) fn open_library(path: &Path) -> Option<Self> {
        // SAFETY: loading runs the initializers of a vendor's library that the system or the user named, as any program that
        // links it would.
        let library = unsafe { Library::new(path) }.ok()?;
        let amd_smi = Self { library };
        // SAFETY: the signature is that of amdsmi.h.
        let started = unsafe {
            let init = amd_smi
                .library
                .get::<unsafe extern "C" fn(u64) -> Status>(b"amdsmi_init\0");
            init.ok()?(INIT_AMD_GPUS)
        };
        (started == SUCCESS).then_some(amd_smi)
    }

    /// All GPUs, socket by socket.
    pub(super) fn list_processors(&self) -> Vec<Processor<'_>> {
        type Sockets = unsafe extern "C" fn(*mut u32, *mut Handle) -> Status;
        type Processors = unsafe extern "C" fn(Handle, *mut u32, *mut Handle) -> Status;
        // SAFETY: the signatures are those of amdsmi.h.
        let (sockets, processors) = unsafe {
            (
                self.library.get::<Sockets>(b"amdsmi_get_socket_handles\0"),
                self.library
                    .get::<Processors>(b"amdsmi_get_processor_handles\0"),
            )
        };
        let (Ok(sockets), Ok(processors)) = (sockets, processors) else {
            return Vec::new();
        };
        let all = |list: &dyn Fn(*mut u32, *mut Handle) -> Status| {
            let mut count = SOCKETS_MAX;
            let mut handles = vec![std::ptr::null_mut(); SOCKETS_MAX as usize];
            let status = list(&raw mut count, handles.as_mut_ptr());
            handles.truncate(if status == SUCCESS {
                count.min(SOCKETS_MAX)
            } else {
                0
            } as usize);
            handles
        };
        // SAFETY: both write at most `count` handles, and `count` is the room that there is.
        let sockets = all(&|count, handles| unsafe { sockets(count, handles) });
        let handles = sockets.into_iter().flat_map(|socket| {
            // SAFETY: the same; the socket is one that the library gave.
            all(&|count, handles| unsafe { processors(socket, count, handles) })
        });
        handles
            .map(|handle| Processor { of: self, handle })
            .collect()
    }
}

impl Drop for AmdSmi {
    fn drop(&mut self) {
        // SAFETY: the signature is that of amdsmi.h; no handle outlives the library.
        unsafe {
            if let Ok(end) = self
                .library
                .get::<unsafe extern "C" fn() -> Status>(b"amdsmi_shut_down\0")
            {
                end();
            }
        }
    }
}

/// One GPU. What it does not tell is absent.
pub(super) struct Processor<'a> {
    of: &'a AmdSmi,
    handle: Handle,
}

impl Processor<'_> {
    /// A number by a kind, as several functions tell it.
    fn read_number(&self, function: &[u8], kind: u32) -> Option<u64> {
        type Tell = unsafe extern "C" fn(Handle, u32, *mut u64) -> Status;
        let mut value = 0;
        // SAFETY: the signature is that of amdsmi.h, the handle one that the library gave.
        let status = unsafe {
            self.of.library.get::<Tell>(function).ok()?(self.handle, kind, &raw mut value)
        };
        (status == SUCCESS).then_some(value)
    }

    /// The first bytes of a structure that a function fills.
    fn read_structure(&self, function: &[u8]) -> Option<[u8; STRUCTURE_MAX_BYTES]> {
        type Fill = unsafe extern "C" fn(Handle, *mut u8) -> Status;
        let mut room = AlignedBuffer([0; STRUCTURE_MAX_BYTES]);
        // SAFETY: the signature is that of amdsmi.h; the room is larger than any version of the structure, and aligned for it.
        let status = unsafe {
            self.of.library.get::<Fill>(function).ok()?(self.handle, room.0.as_mut_ptr())
        };
        (status == SUCCESS).then_some(room.0)
    }

    /// The current value is the first of the structure in all versions.
    fn clock_mhz(&self, kind: u32) -> Option<u32> {
        type Fill = unsafe extern "C" fn(Handle, u32, *mut u8) -> Status;
        let mut room = AlignedBuffer([0; STRUCTURE_MAX_BYTES]);
        // SAFETY: as for `structure`.
        let status = unsafe {
            let fill = self.of.library.get::<Fill>(b"amdsmi_get_clock_info\0");
            fill.ok()?(self.handle, kind, room.0.as_mut_ptr())
        };
        (status == SUCCESS).then(|| word_at(&room.0, 0))
    }

    fn read_temperature(&self, sensor: u32) -> Option<i64> {
        type Tell = unsafe extern "C" fn(Handle, u32, u32, *mut i64) -> Status;
        let mut value = 0;
        // SAFETY: the signature is that of amdsmi.h, the handle one that the library gave.
        let status = unsafe {
            let tell = self.of.library.get::<Tell>(b"amdsmi_get_temp_metric\0");
            tell.ok()?(self.handle, sensor, TEMPERATURE_CURRENT, &raw mut value)
        };
        (status == SUCCESS).then_some(value)
    }

    /// `market_name` is the first field.
    pub(super) fn name(&self) -> String {
        let info = self.read_structure(b"amdsmi_get_gpu_asic_info\0");
        let bytes = info.map_or(Vec::new(), |info| info[..256].to_vec());
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
    }

    /// Share of time in which compute units and memory were busy, percent.
    pub(super) fn activity(&self) -> Option<(u32, u32)> {
        let usage = self.read_structure(b"amdsmi_get_gpu_activity\0")?;
        Some((word_at(&usage, 0), word_at(&usage, 1)))
    }

    pub(super) fn compute_clock_mhz(&self) -> Option<u32> {
        self.clock_mhz(COMPUTE_CLOCK)
    }

    pub(super) fn memory_clock_mhz(&self) -> Option<u32> {
        self.clock_mhz(MEMORY_CLOCK)
    }

    pub(super) fn hotspot_c(&self) -> Option<i64> {
        self.read_temperature(TEMPERATURE_HOTSPOT)
    }

    pub(super) fn memory_c(&self) -> Option<i64> {
        self.read_temperature(VRAM_TEMPERATURE)
    }

    pub(super) fn memory_used(&self) -> Option<u64> {
        self.read_number(b"amdsmi_get_gpu_memory_usage\0", MEMORY_VRAM)
    }

    pub(super) fn memory_total(&self) -> Option<u64> {
        self.read_number(b"amdsmi_get_gpu_memory_total\0", MEMORY_VRAM)
    }

    /// Since the driver started: a counter and what one step of it is worth in µJ.
    pub(super) fn energy_j(&self) -> Option<f64> {
        type Tell = unsafe extern "C" fn(Handle, *mut u64, *mut f32, *mut u64) -> Status;
        let (mut steps, mut microjoules, mut time) = (0, 0.0, 0);
        // SAFETY: the signature is that of amdsmi.h, the handle one that the library gave.
        let status = unsafe {
            let tell = self.of.library.get::<Tell>(b"amdsmi_get_energy_count\0");
            tell.ok()?(
                self.handle,
                &raw mut steps,
                &raw mut microjoules,
                &raw mut time,
            )
        };
        (status == SUCCESS && microjoules > 0.0)
            .then(|| steps as f64 * f64::from(microjoules) * 1e-6)
    }
}

#[repr(align(16))]
struct AlignedBuffer([u8; STRUCTURE_MAX_BYTES]);

fn word_at(bytes: &[u8; STRUCTURE_MAX_BYTES], index: usize) -> u32 {
    let at = 4 * index;
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
