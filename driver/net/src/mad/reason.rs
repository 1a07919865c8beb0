// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`RejectReason`]: why a connection is refused; [`SidrStatus`]: why a datagram service is not there.

/// Declares the codes of a field: name, number and text of each. Other numbers are `Other`.
macro_rules! codes {
    ($(#[doc = $doc:literal])+ $Name:ident: $T:ident, $clause:literal { $($Code:ident = $number:literal, $text:literal;)+ }) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $Name {
            $(#[doc = concat!("Code ", stringify!($number), ": ", $text, ".")] $Code,)+
            /// Another.
            Other($T),
        }

        impl $Name {
            /// All that the standard names.
            pub const ALL: &'static [$Name] = &[$($Name::$Code,)+];

            /// Its number.
            pub fn code(self) -> $T {
                match self {
                    $($Name::$Code => $number,)+
                    $Name::Other(code) => code,
                }
            }

            fn text(self) -> Option<&'static str> {
                match self {
                    $($Name::$Code => Some($text),)+
                    $Name::Other(_) => None,
                }
            }
        }

        impl From<$T> for $Name {
            fn from(code: $T) -> Self {
                match code {
                    $($number => $Name::$Code,)+
                    other => $Name::Other(other),
                }
            }
        }

        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.text() {
                    Some(text) => write!(f, "{text} (reason {})", self.code()),
                    None => write!(f, concat!("reason {} of IBTA ", $clause), self.code()),
                }
            }
        }
    };
}

codes! {
    /// Why a connection is refused (IBTA 12.6.7.2).
    RejectReason: u16, "12.6.7.2" {
        NoQueuePair = 1, "no queue pair is left";
        NoEec = 2, "no end-to-end context is left";
        NoResources = 3, "no memory or other resource is left";
        Timeout = 4, "the answer came too late";
        Unsupported = 5, "the request is not supported";
        InvalidCommId = 6, "there is no such connection";
        InvalidCommInstance = 7, "there is no such instance of the connection";
        InvalidServiceId = 8, "nobody listens there";
        InvalidTransport = 9, "the transport service is not served";
        StaleConnection = 10, "an older connection of this queue pair is not forgotten there";
        NoRdc = 11, "there is no such RD channel";
        InvalidGid = 12, "there is no such GID";
        InvalidLid = 13, "there is no such LID";
        InvalidSl = 14, "the service level is not served";
        InvalidTrafficClass = 15, "the traffic class is not served";
        InvalidHopLimit = 16, "the hop limit is not served";
        InvalidPacketRate = 17, "the packet rate is not served";
        InvalidAlternateGid = 18, "there is no such alternate GID";
        InvalidAlternateLid = 19, "there is no such alternate LID";
        InvalidAlternateSl = 20, "the alternate service level is not served";
        InvalidAlternateTrafficClass = 21, "the alternate traffic class is not served";
        InvalidAlternateHopLimit = 22, "the alternate hop limit is not served";
        InvalidAlternatePacketRate = 23, "the alternate packet rate is not served";
        PortAndCmRedirect = 24, "another port and its manager serve it";
        PortRedirect = 25, "another port serves it";
        InvalidMtu = 26, "the path MTU is not served";
        InsufficientResponderResources = 27, "too few READs are answered at once";
        Consumer = 28, "the program there refused";
        RnrRetry = 29, "the RNR retry count is not served";
        DuplicateCommId = 30, "the number of the connection is in use";
        InvalidClassVersion = 31, "the version of the manager is not served";
        InvalidFlowLabel = 32, "the flow label is not served";
        InvalidAlternateFlowLabel = 33, "the alternate flow label is not served";
        VendorOption = 35, "the vendor's option is not served";
    }
}

codes! {
    /// What became of a request for the queue pair of a datagram service (IBTA 12.11.1.2).
    SidrStatus: u8, "12.11.1.2" {
        Valid = 0, "the service is there";
        Unsupported = 1, "nobody listens there";
        Rejected = 2, "the program there refused";
        NoQueuePair = 3, "the service has no queue pair";
        Redirect = 4, "another port serves it";
        UnsupportedVersion = 5, "the version of the manager is not served";
    }
}
