//! The keys of events that some table wants.

macro_rules! fields {
    ($( $name:ident = $($text:literal)|+, )*) => {
        /// What comes after a value: a key, of the event or of its `args`, or the end of either.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(super) enum Field {
            $($name,)*
            /// A key that no table wants.
            Other,
            /// The brace that ends the object.
            End,
        }

        impl Field {
            pub(super) fn from_key(key: &[u8]) -> Self {
                match key {
                    $( $($text)|+ => Self::$name, )*
                    _ => Self::Other,
                }
            }
        }
    };
}

fields! {
    Phase = b"ph",
    Category = b"cat",
    Name = b"name",
    Process = b"pid",
    Thread = b"tid",
    Time = b"ts",
    Duration = b"dur",
    Flow = b"id",
    Args = b"args",
    External = b"External id" | b"external id",
    AutogradSequence = b"Sequence number",
    Correlation = b"correlation",
    Dims = b"Input Dims" | b"Input dims",
    Strides = b"Input Strides",
    Dtypes = b"Input type",
    Values = b"Concrete Inputs",
    PythonId = b"Python id",
    PythonParent = b"Python parent id",
    Device = b"device" | b"Device Id",
    Context = b"context",
    Stream = b"stream",
    Grid = b"grid",
    Block = b"block",
    Registers = b"registers per thread",
    Shared = b"shared memory",
    StaticShared = b"static shared memory",
    DynamicShared = b"dynamic shared memory",
    Occupancy = b"est. achieved occupancy %",
    Graph = b"graph id",
    GraphNode = b"graph node id",
    Bytes = b"bytes" | b"Bytes",
    Size = b"size",
    Direction = b"direction",
    Address = b"Addr",
    Allocated = b"Total Allocated",
    Reserved = b"Total Reserved",
    DeviceType = b"Device Type",
    Domain = b"domain",
    Mangled = b"mangled name",
    Kernel = b"kernel",
    XlaOp = b"hlo_op",
    XlaStep = b"step_num",
    Collective = b"Collective name",
    Dtype = b"dtype",
    Group = b"Process Group Name",
    GroupDescription = b"Process Group Description",
    GroupRanks = b"Process Group Ranks",
    GroupSize = b"Group size",
    Sequence = b"Seq",
    InElements = b"In msg nelems",
    OutElements = b"Out msg nelems",
}

impl Field {
    /// Whether it is one of the four lists that say what an operator was called with.
    pub(super) fn is_inputs(self) -> bool {
        matches!(
            self,
            Self::Dims | Self::Strides | Self::Dtypes | Self::Values
        )
    }
}
