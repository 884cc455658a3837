//! GHASH over rows of blocks, written once for all rooms with carry-less multiplication.

/// Defines the powers of the hash key and the hash of rows by them: see `engine!`. The room says
/// how it multiplies: `three_products!` or `four_products!`.
macro_rules! ghash {
    (beside = $beside:ident, #[$features:meta]) => {
        /// The highest power of the hash key: of the sum before a tail of a whole chunk.
        const POWER_MAX: usize = CHUNK_BLOCKS + 1 + BLOCKS;
        const ENTRIES: usize = POWER_MAX + BLOCKS;

        /// Makes the powers of a hash key from the zero block that was encrypted.
        #[inline]
        #[$features]
        fn expand_powers(hashed_zero: Element, key: &mut Key) {
            put_power(key, 0, field::one());
            put_power(key, 1, field::hash_key(hashed_zero));
            let mut highest = 1;
            while highest < BLOCKS {
                highest += 1;
                put_product(key, highest / 2, highest - highest / 2);
            }
            // Each round takes as many rows from those below as there are.
            let mut rows = 1;
            while rows <= ROWS {
                let (step, beside) = power(key, rows * BLOCKS);
                for row in rows + 1..=(2 * rows).min(ROWS + 1) {
                    let below = POWER_MAX - (row - rows) * BLOCKS;
                    let product = multiply(row_of(&key.powers[below..]), step, beside);
                    let (made, entry) = (reduce(product), POWER_MAX - row * BLOCKS);
                    store_row(&mut key.powers[entry..], made);
                    store_row(&mut key.beside[entry..], $beside(made));
                }
                rows *= 2;
            }
            put_product(key, POWER_MAX - 1, 1);
        }

        #[inline]
        #[$features]
        fn put_product(key: &mut Key, left: usize, right: usize) {
            let [a, b] = [left, right].map(|power| key.powers[POWER_MAX - power]);
            put_power(key, left + right, field::product(field::element(a), field::element(b)));
        }

        #[inline]
        #[$features]
        fn put_power(key: &mut Key, power: usize, value: Element) {
            key.powers[POWER_MAX - power] = field::words(value);
            key.beside[POWER_MAX - power] = field::words(field::$beside(value));
        }

        /// Adds blocks to a hash.
        #[inline]
        #[$features]
        fn hash(key: &Key, sum: Element, bytes: &[u8]) -> Element {
            let (mut sum, mut bytes) = (sum, bytes);
            let h = field::element(key.powers[POWER_MAX - 1]);
            if bytes.len() > 2 * ROW_BYTES {
                let mut strands = last_of_row(sum);
                let (step, beside) = power(key, BLOCKS);
                let (rows, rest) = bytes.as_chunks::<ROW_BYTES>();
                for row in rows {
                    let product = multiply(strands, step, beside);
                    strands = add(reduce(product), reverse(row_from(row)));
                }
                sum = join(key, strands);
                bytes = rest;
            }
            let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
            for block in blocks {
                sum = field::add(field::product(sum, h), field::block(block));
            }
            if !rest.is_empty() {
                sum = field::add(field::product(sum, h), field::partial_block(rest));
            }
            sum
        }

        /// Brings the strands together: what one strand alone would have come to.
        #[inline]
        #[$features]
        fn join(key: &Key, strands: Row) -> Element {
            reduce_sum(product_from(key, BLOCKS - 1, strands))
        }

        /// What a row contributes that stands `ROWS` − `place` rows before the end of a chunk.
        #[inline]
        #[$features]
        fn product_at(key: &Key, place: usize, row: Row) -> Product {
            let (power, sum) = power(key, BLOCKS * (ROWS - place));
            multiply(row, power, sum)
        }

        /// What a row contributes whose first block stands at `power`. Blocks that would stand
        /// below H^0 are zero, and so are those powers.
        #[inline]
        #[$features]
        fn product_from(key: &Key, power: usize, row: Row) -> Product {
            let entry = POWER_MAX - power;
            multiply(row, row_of(&key.powers[entry..]), row_of(&key.beside[entry..]))
        }

        /// A power of the hash key, and what the key has beside it, at every position.
        #[inline]
        #[$features]
        fn power(key: &Key, power: usize) -> (Row, Row) {
            let entry = POWER_MAX - power;
            (broadcast(&key.powers[entry]), broadcast(&key.beside[entry]))
        }

        /// Multiplies by u^(−64).
        #[inline]
        #[$features]
        fn fold(row: Row) -> Row {
            add(swap_halves(row), carryless::<0x00>(row, broadcast(&[field::FOLDING, 0])))
        }

        /// Hashes the rows of a chunk of ciphertext.
        #[inline]
        #[$features]
        fn hash_chunk(key: &Key, strands: Row, rows: &[Row; ROWS]) -> Row {
            let mut sum = product_at(key, 0, strands);
            // Not by an iterator over the array, which would be kept in memory.
            for place in 1..ROWS {
                sum = add_products(sum, product_at(key, place, reverse(rows[place - 1])));
            }
            add(reduce(sum), reverse(rows[ROWS - 1]))
        }
    };
}

/// Four products of halves, and one fold: fewer operations in all, where one can add up three rows.
/// Beside each power the key has it times u^(−64).
macro_rules! four_products {
    (#[$features:meta]) => {
        /// A product that is still to be reduced: 128 coefficients from u^0 on, and others from
        /// u^64 on.
        type Product = (Row, Row);

        /// Multiplies each block by a power, given with its product with u^(−64).
        #[inline]
        #[$features]
        fn multiply(row: Row, power: Row, shifted: Row) -> Product {
            let low = add(carryless::<0x00>(row, shifted), carryless::<0x01>(row, power));
            let high = add(carryless::<0x10>(row, shifted), carryless::<0x11>(row, power));
            (low, high)
        }

        #[inline]
        #[$features]
        fn add_products(left: Product, right: Product) -> Product {
            (add(left.0, right.0), add(left.1, right.1))
        }

        /// Reduces the product at each position.
        #[inline]
        #[$features]
        fn reduce(product: Product) -> Row {
            add(fold(product.0), product.1)
        }

        /// Adds up a row of products and reduces the sum.
        #[inline]
        #[$features]
        fn reduce_sum(product: Product) -> Element {
            field::add(field::fold(sum_of_row(product.0)), sum_of_row(product.1))
        }
    };
}

/// Three products of halves (Karatsuba), and two folds: where carry-less products are dear.
/// Beside each power the key has the sum of its halves.
macro_rules! three_products {
    (#[$features:meta]) => {
        /// A product that is still to be reduced: of lower halves, of sums of halves, of upper
        /// halves.
        type Product = (Row, Row, Row);

        /// Multiplies each block by a power, given with the sum of its halves.
        #[inline]
        #[$features]
        fn multiply(row: Row, power: Row, middle: Row) -> Product {
            let low = carryless::<0x00>(row, power);
            let high = carryless::<0x11>(row, power);
            (low, carryless::<0x00>(halves(row), middle), high)
        }

        /// The sum of the two halves of each block, in both halves.
        #[inline]
        #[$features]
        fn halves(row: Row) -> Row {
            add(row, swap_halves(row))
        }

        #[inline]
        #[$features]
        fn add_products(left: Product, right: Product) -> Product {
            (add(left.0, right.0), add(left.1, right.1), add(left.2, right.2))
        }

        /// Reduces the product at each position.
        #[inline]
        #[$features]
        fn reduce(product: Product) -> Row {
            let (low, middle, high) = product;
            let middle = add(middle, add(low, high));
            add(fold(add(fold(low), middle)), high)
        }

        /// Adds up a row of products and reduces the sum.
        #[inline]
        #[$features]
        fn reduce_sum(product: Product) -> Element {
            let (low, middle, high) = product;
            field::reduce(sum_of_row(low), sum_of_row(middle), sum_of_row(high))
        }
    };
}
