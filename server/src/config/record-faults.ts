import { endpointSchema } from '../destinations/http/settings.ts';
import type { JsonObject } from '../model/json.ts';
import { audienceSchema, traitSchema } from './computation-schema.ts';
import { destinationSchema } from './destination-schema.ts';
import { sourceSchema } from './schema.ts';

const SCHEMAS = {
  source: sourceSchema,
  destination: destinationSchema,
  endpoint: endpointSchema,
  audience: audienceSchema,
  trait: traitSchema,
};

/** The kinds of records, and the part of one, that can be checked alone. */
export type CheckedKind = keyof typeof SCHEMAS;

export interface RecordFault {
  /** `['headers', 'Host']` */
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/**
 * Finds what is wrong with one record, before it stands in a file beside others: by the rules of the file,
 * in the order of the record. Empty where it could be applied.
 */
export function recordFaults(kind: CheckedKind, record: JsonObject): readonly RecordFault[] {
  const issues = SCHEMAS[kind].safeParse(record).error?.issues ?? [];
  return issues.map(({ path, message }) => ({ path, message }));
}
