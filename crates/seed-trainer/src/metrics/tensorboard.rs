//! TensorBoard event files: TFRecords with masked CRC-32C around hand-written protocol buffers.

use super::Record;
use crate::run_folder::StorageError;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// An open event file.
pub struct EventWriter {
    path: PathBuf,
    file: File,
}

impl EventWriter {
    /// Starts a new event file in `folder`. Viewers drop what older files say after `resume_step`, or everything
    /// without one.
    ///
    /// # Errors
    /// When the folder or the file cannot be made.
    pub fn create(folder: &Path, resume_step: Option<u64>) -> Result<Self, StorageError> {
        std::fs::create_dir_all(folder).map_err(|e| StorageError::write(folder, e))?;
        // Viewers read files in the order of their names, so a resumed run's file must come last.
        let attempt = std::fs::read_dir(folder).map_err(|e| StorageError::read(folder, e))?.count();
        let name = format!("events.out.tfevents.{:010}.{attempt:04}.seed", wall_time() as u64);
        let path = folder.join(name);
        let file = File::create(&path).map_err(|e| StorageError::write(&path, e))?;
        let mut writer = Self { path, file };
        let mut first = event(0);
        field_bytes(&mut first, 3, b"brain.Event:2");
        writer.record(&first)?;
        if attempt > 0 || resume_step.is_some() {
            let mut start = event(resume_step.map_or(0, |step| step + 1));
            // SessionLog { status: START }: viewers purge events from this step on.
            field_bytes(&mut start, 7, &[0x08, 0x01]);
            writer.record(&start)?;
        }
        Ok(writer)
    }

    /// Writes every number as a scalar of this step.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&mut self, step: u64, record: &Record) -> Result<(), StorageError> {
        let mut summary = Vec::new();
        for (name, value) in record.iter() {
            let mut scalar = Vec::new();
            field_bytes(&mut scalar, 1, name.as_bytes());
            scalar.push(2 << 3 | 5);
            scalar.extend((value as f32).to_le_bytes());
            field_bytes(&mut summary, 1, &scalar);
        }
        let mut event = event(step);
        field_bytes(&mut event, 5, &summary);
        self.record(&event)
    }

    fn record(&mut self, data: &[u8]) -> Result<(), StorageError> {
        let length = (data.len() as u64).to_le_bytes();
        let mut bytes = Vec::with_capacity(data.len() + 16);
        bytes.extend(length);
        bytes.extend(masked_crc(&length).to_le_bytes());
        bytes.extend(data);
        bytes.extend(masked_crc(data).to_le_bytes());
        self.file.write_all(&bytes).map_err(|e| StorageError::write(&self.path, e))
    }
}

fn wall_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// The head of an `Event`: wall time (field 1, double) and step (field 2, varint).
fn event(step: u64) -> Vec<u8> {
    let mut bytes = vec![1 << 3 | 1];
    bytes.extend(wall_time().to_le_bytes());
    bytes.push(2 << 3);
    varint(&mut bytes, step);
    bytes
}

fn field_bytes(out: &mut Vec<u8>, number: u8, data: &[u8]) {
    out.push(number << 3 | 2);
    varint(out, data.len() as u64);
    out.extend(data);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// TFRecord's mask: rotate right by 15, add a constant.
fn masked_crc(data: &[u8]) -> u32 {
    crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), reflected.
fn crc32c(data: &[u8]) -> u32 {
    !data.iter().fold(!0u32, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

const TABLE: [u32; 256] = {
    let mut table = [0u32; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { 0x82f6_3b78 ^ (crc >> 1) } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_of_the_standard_check_string() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        // RFC 3720 B.4: 32 zero bytes, 32 bytes of ones.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }
}
