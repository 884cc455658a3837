//! AWS-LC, by aws-lc-rs.

use aws_lc_rs::aead::AES_192_GCM;
use aws_lc_rs::kem::{
    Algorithm, DecapsulationKey, EncapsulationKey, ML_KEM_512, ML_KEM_768, ML_KEM_1024,
};

use crate::kem;

crate::ring_like::work!(aws_lc_rs, &AES_192_GCM, "no AES-CBC with HMAC by aws-lc-rs");

/// How it does a task of ML-KEM, with random bytes of its own; encapsulation takes the bytes of a
/// key.
pub fn ml_kem(task: kem::Task) -> Result<Work, String> {
    let set: &'static Algorithm = match task.set {
        512 => &ML_KEM_512,
        768 => &ML_KEM_768,
        1024 => &ML_KEM_1024,
        other => return Err(format!("no ML-KEM-{other}")),
    };
    let pairs = task.pairs()?;
    Ok(match task.operation {
        kem::Operation::Generate => kem::Task::for_each(move |_, output| {
            let key = DecapsulationKey::generate(set).expect("random bytes");
            output.copy_from_slice(key.key_bytes().expect("a key of ours").as_ref());
        }),
        kem::Operation::Encapsulate => kem::Task::for_each(move |lane, output| {
            let key = EncapsulationKey::new(set, &pairs[lane].public).expect("a sound key");
            let (ciphertext, shared) = key.encapsulate().expect("random bytes");
            let (front, back) = output.split_at_mut(ciphertext.as_ref().len());
            front.copy_from_slice(ciphertext.as_ref());
            back.copy_from_slice(shared.as_ref());
        }),
        kem::Operation::Decapsulate => {
            let key = |pair: &kem::Pair| DecapsulationKey::new(set, &pair.private);
            let keys = pairs.iter().map(key).collect::<Result<Vec<_>, _>>();
            let keys = keys.map_err(|error| error.to_string())?;
            kem::Task::for_each(move |lane, output| {
                let ciphertext = pairs[lane].ciphertext.as_slice().into();
                let shared =
                    keys[lane].decapsulate(ciphertext).expect("a ciphertext of its length");
                output.copy_from_slice(shared.as_ref());
            })
        }
    })
}
