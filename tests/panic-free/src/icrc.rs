use roce_codec::icrc::{
    Field, Fields, IcrcDiagnosis, IcrcMistake, IcrcVerdict, Network, NotCheckable,
    can_change_in_flight, diagnose, verify, verify_datagram,
};
use roce_codec::{Frame, NativeFrame, NibbleTable, ParseError, Shift, SmallTable, Start, combine};

crate::instantiate! {
    icrc_verify(a: &[u8], b: &[u8], s: Start) -> Result<IcrcVerdict, ParseError> {
        verify([a, b], s)
    }
    icrc_verify_datagram(bytes: &[u8]) -> IcrcVerdict { verify_datagram(bytes) }
    icrc_of_error(error: ParseError) -> Option<NotCheckable> { NotCheckable::of_error(error) }
    icrc_diagnose(frame: &Frame<'_>) -> Option<IcrcDiagnosis> { diagnose(frame) }
    frame_diagnose(frame: &Frame<'_>) -> Option<IcrcDiagnosis> { frame.diagnose_icrc() }
    frame_diagnose_small(frame: &Frame<'_>) -> Option<IcrcDiagnosis> {
        frame.diagnose_icrc_with::<SmallTable>()
    }
    frame_diagnose_nibble(frame: &Frame<'_>) -> Option<IcrcDiagnosis> {
        frame.diagnose_icrc_with::<NibbleTable>()
    }
    native_diagnose(frame: &NativeFrame<'_>) -> Option<IcrcDiagnosis> { frame.diagnose_icrc() }
    native_diagnose_small(frame: &NativeFrame<'_>) -> Option<IcrcDiagnosis> {
        frame.diagnose_icrc_with::<SmallTable>()
    }
    diagnosis_mistake(diagnosis: &IcrcDiagnosis) -> IcrcMistake { diagnosis.mistake() }
    diagnosis_last(diagnosis: &IcrcDiagnosis) -> Option<IcrcMistake> { diagnosis.mistakes().last() }
    can_change(network: Network) -> Fields { can_change_in_flight(network) }
    fields_of(fields: &[Field]) -> Fields { Fields::of(fields) }
    fields_contains(fields: Fields, field: Field) -> bool { fields.contains(field) }
    fields_is_empty(fields: Fields) -> bool { fields.is_empty() }
    fields_len(fields: Fields) -> u32 { fields.len() }
    fields_union(fields: Fields, other: Fields) -> Fields { fields.union(other) }
    fields_without(fields: Fields, other: Fields) -> Fields { fields.without(other) }
    fields_last(fields: Fields) -> Option<Field> { fields.iter().last() }
    crc_combine(first: u32, second: u32, len: u64) -> u32 { combine(first, second, len) }
    crc_shift_over(len: u64) -> Shift { Shift::over(len) }
    crc_shift_back(len: u64) -> Shift { Shift::back(len) }
    crc_shift_apply(shift: Shift, state: u32) -> u32 { shift.apply(state) }
}
