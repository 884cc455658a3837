//! Where the fields of a key lie in a packet.

/// A field of a packet, in network byte order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// What rule files and messages call it.
    pub name: String,
    /// The first byte, counted from where the packet begins.
    pub offset: usize,
    /// How many bytes: 1, 2, 4, 8 or 16.
    pub bytes: usize,
}

/// The fields that rules look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    fields: Vec<Field>,
}

/// Fields that no table can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// There is none.
    #[error("a layout needs at least one field")]
    NoField,
    /// There are too many.
    #[error("a layout has at most {max} fields, not {0}", max = Layout::FIELDS_MAX)]
    TooMany(usize),
    /// A field has a length that is not offered.
    #[error("field {name} is {bytes} bytes long; a field has 1, 2, 4, 8 or 16")]
    Length {
        /// The field's name.
        name: String,
        /// Its length.
        bytes: usize,
    },
    /// A field lies beyond what is looked at.
    #[error(
        "field {name} ends at byte {end}; a key ends at byte {} at the latest",
        Layout::SPAN_MAX
    )]
    Offset {
        /// The field's name.
        name: String,
        /// Where it ends.
        end: usize,
    },
    /// Two fields have one name.
    #[error("there are two fields named {0}")]
    Name(String),
}

impl Layout {
    /// How many fields there can be.
    pub const FIELDS_MAX: usize = 16;
    /// How far into a packet fields can lie.
    pub const SPAN_MAX: usize = 256;

    /// Takes fields in the order that rules list them in.
    ///
    /// # Errors
    ///
    /// If there are no fields or too many, or if one has an odd length, lies too far behind, or has
    /// another one's name.
    pub fn new(fields: Vec<Field>) -> Result<Self, LayoutError> {
        if fields.is_empty() {
            return Err(LayoutError::NoField);
        }
        if fields.len() > Self::FIELDS_MAX {
            return Err(LayoutError::TooMany(fields.len()));
        }
        for (index, Field { name, offset, bytes }) in fields.iter().enumerate() {
            if ![1, 2, 4, 8, 16].contains(bytes) {
                return Err(LayoutError::Length { name: name.clone(), bytes: *bytes });
            }
            let end = offset.saturating_add(*bytes);
            if end > Self::SPAN_MAX {
                return Err(LayoutError::Offset { name: name.clone(), end });
            }
            if fields[..index].iter().any(|earlier| earlier.name == *name) {
                return Err(LayoutError::Name(name.clone()));
            }
        }
        Ok(Layout { fields })
    }

    /// Source, destination, source port, destination port and protocol, in a packet that begins
    /// with an IPv4 header without options.
    pub fn ipv4() -> Self {
        Layout { fields: tuple(4, 12, 20, 9) }
    }

    /// Source, destination, source port, destination port and protocol, in a packet that begins
    /// with an IPv6 header without extensions.
    pub fn ipv6() -> Self {
        Layout { fields: tuple(16, 8, 40, 6) }
    }

    /// The layout of rules whose addresses have so many bytes; that of IPv4 where no rule settles
    /// it.
    pub(super) fn of_addresses(bytes: Option<usize>) -> Self {
        if bytes == Some(16) { Self::ipv6() } else { Self::ipv4() }
    }

    /// The fields, in the order that rules list them in.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// How many bytes of a packet are looked at: it must not be shorter.
    pub fn span(&self) -> usize {
        self.fields.iter().map(|field| field.offset + field.bytes).max().unwrap_or(0)
    }

    /// The value of a field in a packet that is at least [`span`](Self::span) bytes long.
    pub fn value(&self, field: &Field, packet: &[u8]) -> u128 {
        let bytes = &packet[field.offset..field.offset + field.bytes];
        bytes.iter().fold(0, |value, byte| value << 8 | u128::from(*byte))
    }
}

fn tuple(address_bytes: usize, addresses: usize, ports: usize, protocol: usize) -> Vec<Field> {
    let field = |name: &str, offset, bytes| Field { name: name.to_owned(), offset, bytes };
    vec![
        field("source", addresses, address_bytes),
        field("destination", addresses + address_bytes, address_bytes),
        field("source_port", ports, 2),
        field("destination_port", ports + 2, 2),
        field("protocol", protocol, 1),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, offset: usize, bytes: usize) -> Field {
        Field { name: name.to_owned(), offset, bytes }
    }

    #[test]
    fn a_key_ends_where_its_last_field_does() {
        assert_eq!(Layout::ipv4().span(), 24);
        assert_eq!(Layout::ipv6().span(), 44);
    }

    #[test]
    fn odd_layouts_are_refused_by_name() {
        let error = |fields| Layout::new(fields).unwrap_err().to_string();
        assert_eq!(error(vec![]), "a layout needs at least one field");
        assert_eq!(
            error(vec![field("tag", 0, 3)]),
            "field tag is 3 bytes long; a field has 1, 2, 4, 8 or 16"
        );
        assert_eq!(
            error(vec![field("tag", 255, 2)]),
            "field tag ends at byte 257; a key ends at byte 256 at the latest"
        );
        assert_eq!(
            error(vec![field("tag", 0, 1), field("tag", 1, 1)]),
            "there are two fields named tag"
        );
        assert_eq!(error(vec![field("tag", usize::MAX, 1)]).split(' ').next_back(), Some("latest"));
    }

    #[test]
    fn fields_are_read_in_network_order() {
        let layout = Layout::new(vec![field("a", 1, 2)]).unwrap();
        assert_eq!(layout.value(&layout.fields()[0], &[9, 1, 2]), 0x0102);
    }
}
