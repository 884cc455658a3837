//! The choice of a room, and batches of every size.

use widelane_cpu::{Policy, Room, Width};
use widelane_crypto::x25519::*;
use widelane_testkit::hex;
use widelane_testkit::rooms::{self, for_each_room_of, supported};

#[test]
fn each_policy_chooses_its_room() {
    let supported = supported();
    let expect = |width, wanted, lanes| {
        let x25519 = X25519::choose(&Policy::up_to(width));
        assert_eq!(x25519.room(), wanted, "{width:?}");
        assert_eq!(x25519.lanes(), lanes);
    };
    let narrowest = if Room::Adx.is_supported() { Room::Adx } else { Room::Portable };
    expect(Width::W128, narrowest, 1);
    if supported.contains(&Room::Ifma256) {
        expect(Width::W256, Room::Ifma256, 4);
        expect(Width::W512, Room::Ifma512, 8);
    } else if supported.contains(&Room::Fma256) {
        expect(Width::W512, Room::Fma256, 4);
    }
}

#[test]
fn few_derivations_have_kernels_of_the_narrowest_open_rooms() {
    let kernels = |policy: &Policy| -> Vec<_> {
        X25519::derive_kernels(policy)
            .iter()
            .map(|kernel| (kernel.lanes(), kernel.room()))
            .collect()
    };
    // Of two kernels for one job, that in general-purpose registers is the second.
    let with = |one: Room, kernels: &[(usize, Room)]| {
        let mut kernels = kernels.to_vec();
        if one.is_supported() {
            let is_first = kernels.first().is_none_or(|(lanes, _)| *lanes > 1);
            kernels.insert(usize::from(!is_first), (1, one));
        }
        kernels
    };
    assert_eq!(kernels(&Policy::up_to(Width::W128)), with(Room::Adx, &[]));
    let supported = supported();
    if supported.contains(&Room::Ifma256) {
        let narrow = [(1, Room::Ifma256), (4, Room::Ifma256)];
        assert_eq!(kernels(&Policy::up_to(Width::W256)), with(Room::Adx, &narrow));
        let policy = Policy { rooms_closed: [Room::Adx].into(), ..Policy::up_to(Width::W256) };
        assert_eq!(kernels(&policy), narrow);
    }
    if supported.contains(&Room::Fma256) {
        let rooms_closed = [Room::Ifma256, Room::Ifma512].into();
        let policy = Policy { rooms_closed, ..Policy::open() };
        assert_eq!(kernels(&policy), with(Room::Adx, &[(1, Room::Fma256), (4, Room::Fma256)]));
    }
    if supported.contains(&Room::Ifma512) {
        let all = [(1, Room::Ifma256), (4, Room::Ifma256), (8, Room::Ifma512)];
        assert_eq!(kernels(&Policy::open()), with(Room::Adx, &all));
        let policy = Policy { rooms_closed: [Room::Ifma256].into(), ..Policy::open() };
        let wide = [(2, Room::Ifma512), (8, Room::Ifma512)];
        assert_eq!(kernels(&policy), with(Room::Adx, &wide));
    }
}

#[test]
fn keys_and_rooms_may_be_shared_by_threads() {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<PrivateKey>();
    shared::<X25519>();
}

#[test]
fn a_batch_of_any_size_is_all_done() {
    let keys: Vec<_> = (0..20).map(|byte| PrivateKey::from_bytes(&[byte; 32])).collect();
    let mut peer = [0; 32];
    peer[0] = 9;
    for_each_room_of(&rooms::X25519, |room, policy| {
        let x25519 = X25519::choose(policy);
        assert_eq!(x25519.room(), room);
        let derive_kernels = X25519::derive_kernels(policy);
        for count in 0..=keys.len() {
            let mut publics = vec![[0; 32]; count];
            let mut jobs: Vec<_> = keys
                .iter()
                .zip(&mut publics)
                .map(|(key, public)| GenerateJob::new(key, public))
                .collect();
            x25519.generate_batch(&mut jobs);
            for x25519 in derive_kernels.iter().chain([&x25519]) {
                let mut shared = vec![[0; 32]; count];
                let mut jobs: Vec<_> = keys
                    .iter()
                    .zip(&mut shared)
                    .map(|(key, shared)| DeriveJob::new(key, &peer, shared))
                    .collect();
                x25519.derive_batch(&mut jobs);
                assert!(jobs.iter().all(|job| job.outcome == Outcome::Done));
                assert_eq!(shared, publics, "{room} {count}");
            }
        }
    });
}

/// The points of small order, in all encodings, each among good ones.
#[test]
fn points_of_small_order_are_told() {
    let low = [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    ]
    .map(|text| <[u8; 32]>::try_from(hex::decode(text)).unwrap());
    let good = [9; 32];
    let key = PrivateKey::from_bytes(&[0x77; 32]);
    for_each_room_of(&rooms::X25519, |room, policy| {
        let x25519 = X25519::choose(policy);
        assert_eq!(x25519.room(), room);
        let peers: Vec<_> = low.iter().flat_map(|low| [low, &good]).collect();
        for x25519 in X25519::derive_kernels(policy).iter().chain([&x25519]) {
            let mut shared = vec![[1; 32]; peers.len()];
            let mut jobs: Vec<_> = peers
                .iter()
                .zip(&mut shared)
                .map(|(peer, shared)| DeriveJob::new(&key, peer, shared))
                .collect();
            x25519.derive_batch(&mut jobs);
            for pair in jobs.chunks(2) {
                assert_eq!(pair[0].outcome, Outcome::ZeroSharedSecret, "{:?}", pair[0].peer);
                assert_eq!(*pair[0].shared, [0; 32]);
                assert_eq!(pair[1].outcome, Outcome::Done);
                assert_ne!(*pair[1].shared, [0; 32]);
            }
        }
    });
}

/// RFC 7748 section 5.2: a thousand iterations.
#[test]
fn the_iterated_vector_comes_out() {
    for_each_room_of(&rooms::X25519, |room, policy| {
        let x25519 = X25519::choose(policy);
        assert_eq!(x25519.room(), room);
        for x25519 in X25519::derive_kernels(policy).iter().chain([&x25519]) {
            let mut point = [0; 32];
            point[0] = 9;
            let mut scalar = point;
            for count in 1..=1000 {
                let (key, mut shared) = (PrivateKey::from_bytes(&scalar), [0; 32]);
                x25519.derive_batch(&mut [DeriveJob::new(&key, &point, &mut shared)]);
                (scalar, point) = (shared, scalar);
                if count == 1 {
                    let once = "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079";
                    assert_eq!(hex::encode(&scalar), once);
                }
            }
            let thousand_times = "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51";
            assert_eq!(hex::encode(&scalar), thousand_times);
        }
    });
}
