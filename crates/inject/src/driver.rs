//! Queries the CUDA driver for its version and devices. It is loaded whenever there are records to write.

use std::ffi::{CStr, c_char, c_int};

use llmprof_wire::Device;

use crate::sys::Library;

// CUdevice_attribute
mod attribute {
    pub(super) const MAX_THREADS_PER_BLOCK: i32 = 1;
    pub(super) const MAX_SHARED_PER_BLOCK: i32 = 8;
    pub(super) const WARP_SIZE: i32 = 10;
    pub(super) const MAX_REGISTERS_PER_BLOCK: i32 = 12;
    pub(super) const CLOCK_RATE: i32 = 13;
    pub(super) const MULTIPROCESSOR_COUNT: i32 = 16;
    pub(super) const PCI_BUS: i32 = 33;
    pub(super) const PCI_DEVICE: i32 = 34;
    pub(super) const MEMORY_CLOCK_RATE: i32 = 36;
    pub(super) const MEMORY_BUS_WIDTH: i32 = 37;
    pub(super) const L2_CACHE_SIZE: i32 = 38;
    pub(super) const MAX_THREADS_PER_SM: i32 = 39;
    pub(super) const PCI_DOMAIN: i32 = 50;
    pub(super) const MAJOR: i32 = 75;
    pub(super) const MINOR: i32 = 76;
    pub(super) const MAX_SHARED_PER_SM: i32 = 81;
    pub(super) const MAX_REGISTERS_PER_SM: i32 = 82;
    pub(super) const MAX_SHARED_PER_BLOCK_OPTIN: i32 = 97;
    pub(super) const MAX_BLOCKS_PER_SM: i32 = 106;
}

type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;
type GetDevice = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
type GetName = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
type GetAttribute = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> c_int;
type GetMemory = unsafe extern "C" fn(*mut usize, c_int) -> c_int;

fn find_driver() -> Option<Library> {
    Library::find_loaded("libcuda.so.1")
}

/// `cuDriverGetVersion`, 0 if the driver is not loaded. May be called before the driver is initialized.
pub(crate) fn driver_version() -> u32 {
    let Some(address) = find_driver().and_then(|driver| driver.symbol(c"cuDriverGetVersion"))
    else {
        return 0;
    };
    let mut version = 0;
    // SAFETY: the driver's function of this name has this signature.
    unsafe { std::mem::transmute::<*mut _, GetVersion>(address)(&raw mut version) };
    version.try_into().unwrap_or(0)
}

/// Writes the record of device `number`, without a name if the driver does not tell it.
pub(crate) fn describe_device(number: u32, out: &mut Vec<u8>) {
    let mut name = [0_u8; 256];
    let device = query_device(number, &mut name).unwrap_or(Device {
        id: number,
        ..Device::default()
    });
    device.put(out);
}

fn query_device(number: u32, name: &mut [u8; 256]) -> Option<Device<'_>> {
    let driver = find_driver()?;
    // SAFETY: the driver's functions of these names have these signatures.
    let (get, get_name, get_attribute, get_memory) = unsafe {
        (
            std::mem::transmute::<*mut _, GetDevice>(driver.symbol(c"cuDeviceGet")?),
            std::mem::transmute::<*mut _, GetName>(driver.symbol(c"cuDeviceGetName")?),
            std::mem::transmute::<*mut _, GetAttribute>(driver.symbol(c"cuDeviceGetAttribute")?),
            std::mem::transmute::<*mut _, GetMemory>(driver.symbol(c"cuDeviceTotalMem_v2")?),
        )
    };
    let mut device = 0;
    // SAFETY: all places are valid for the calls; a name has at most the bytes that are stated.
    unsafe {
        if get(&raw mut device, c_int::try_from(number).ok()?) != 0
            || get_name(name.as_mut_ptr().cast(), 255, device) != 0
        {
            return None;
        }
    }
    let ask = |attribute: c_int| {
        let mut value = 0;
        // SAFETY: `value` is valid for the call.
        let status = unsafe { get_attribute(&raw mut value, attribute, device) };
        if status == 0 {
            value.try_into().unwrap_or(0)
        } else {
            0
        }
    };
    let mut memory = 0_usize;
    // SAFETY: `memory` is valid for the call.
    unsafe { get_memory(&raw mut memory, device) };
    Some(Device {
        id: number,
        pci_domain: ask(attribute::PCI_DOMAIN),
        pci_bus: ask(attribute::PCI_BUS),
        pci_device: ask(attribute::PCI_DEVICE),
        major: ask(attribute::MAJOR),
        minor: ask(attribute::MINOR),
        sm_count: ask(attribute::MULTIPROCESSOR_COUNT),
        warp_size: ask(attribute::WARP_SIZE),
        threads_per_block: ask(attribute::MAX_THREADS_PER_BLOCK),
        threads_per_sm: ask(attribute::MAX_THREADS_PER_SM),
        blocks_per_sm: ask(attribute::MAX_BLOCKS_PER_SM),
        registers_per_sm: ask(attribute::MAX_REGISTERS_PER_SM),
        registers_per_block: ask(attribute::MAX_REGISTERS_PER_BLOCK),
        shared_per_sm: ask(attribute::MAX_SHARED_PER_SM),
        shared_per_block: ask(attribute::MAX_SHARED_PER_BLOCK),
        shared_per_block_optin: ask(attribute::MAX_SHARED_PER_BLOCK_OPTIN),
        l2_bytes: ask(attribute::L2_CACHE_SIZE),
        clock_khz: ask(attribute::CLOCK_RATE),
        memory_clock_khz: ask(attribute::MEMORY_CLOCK_RATE),
        memory_bus_bits: ask(attribute::MEMORY_BUS_WIDTH),
        memory_bytes: memory as u64,
        text: CStr::from_bytes_until_nul(name).map_or(&[], CStr::to_bytes),
    })
}
