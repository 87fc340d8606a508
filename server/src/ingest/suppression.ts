import type { CallCounts } from '../ports/event-log.ts';
import type { SuppressionCheck } from '../ports/ingest.ts';
import type { AcceptedEvent } from './calls.ts';
import type { ParsedRequest } from './parse.ts';

/**
 * The request without the events of suppressed users, which count as discarded. It is answered as if they were stored.
 * spec/specification.md, "Suppressed users".
 */
export function withoutSuppressed(parsed: ParsedRequest, check: SuppressionCheck): ParsedRequest {
  if (parsed.kind === 'refused') return parsed;
  const kept: AcceptedEvent[] = [];
  const suppressed = new Map<number, number>();
  for (const event of parsed.events) {
    if (!check.suppresses(event.line)) kept.push(event);
    else suppressed.set(event.source, (suppressed.get(event.source) ?? 0) + 1);
  }
  if (suppressed.size === 0) return parsed;
  const counts = parsed.counts.map((one): CallCounts => {
    const n = suppressed.get(one.source);
    return n === undefined ? one : { ...one, discarded: { ...one.discarded, suppressed: n } };
  });
  return { ...parsed, events: kept, counts };
}
