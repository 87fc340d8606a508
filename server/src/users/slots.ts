import type { ByteReader, ByteWriter } from './byte-codec.ts';

/** What one slot has counted, as bytes. */
export interface SlotState {
  readonly bytes: Uint8Array;
}

export function writeSlot(writer: ByteWriter, { bytes }: SlotState): void {
  writer.bytes(bytes);
}

export function readSlot(reader: ByteReader): SlotState {
  return { bytes: reader.bytes() };
}

/** The greater bytes win until slots have a meaning. */
export function mergeSlot(_slot: number, a: SlotState, b: SlotState): SlotState {
  return Buffer.compare(a.bytes, b.bytes) >= 0 ? a : b;
}
