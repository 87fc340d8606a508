import type { RecordPatch } from '../../api/records.ts';
import { changedFields, numberOf } from '../../editing/fields.ts';
import type { FieldLabels } from '../../editing/overtaken.tsx';
import type { RecordForm } from '../../editing/use-edited-record.ts';
import type { SourceRecord } from './queries.ts';

/** The settings of a source as texts of its form. */
export interface SourceDraft extends Pick<SourceRecord, 'mode' | 'whenDisabled' | 'ip' | 'trust'> {
  /** Of a call that says nothing of consent. */
  readonly consent: 'given' | 'required';
  /** Such as 24h; empty: the default. */
  readonly dedupeWindow: string;
  /** Calls a second; empty: no limit. */
  readonly rateLimit: string;
  /** Calls a second from one public address; empty: by trust, 0: no limit. */
  readonly rateLimitPerAddress: string;
  /** Empty: the name. */
  readonly projectId: string;
  /** A path of the browser library; empty: none of its own. */
  readonly scriptPath: string;
}

function draftOf(source: SourceRecord): SourceDraft {
  const { mode, whenDisabled, ip, trust, consent = 'given', dedupeWindow = '', projectId = '' } = source;
  const [rateLimit, rateLimitPerAddress] = [source.rateLimit, source.rateLimitPerAddress].map((limit) =>
    limit === undefined ? '' : String(limit),
  ) as [string, string];
  const { scriptPath = '' } = source;
  const texts = { dedupeWindow, rateLimit, rateLimitPerAddress, projectId, scriptPath };
  return { mode, whenDisabled, ip, trust, consent, ...texts };
}

/** Null takes a setting away. */
function textOrNull(text: string): string | null {
  return text.trim() === '' ? null : text.trim();
}

function patchOf(base: SourceDraft, draft: SourceDraft): RecordPatch {
  const { mode, whenDisabled, ip, trust, consent, dedupeWindow, rateLimit } = draft;
  const { rateLimitPerAddress, projectId, scriptPath } = draft;
  const wanted = {
    mode,
    whenDisabled,
    ip,
    trust,
    consent: consent === 'required' ? consent : null,
    dedupeWindow: textOrNull(dedupeWindow),
    rateLimit: numberOf(rateLimit),
    rateLimitPerAddress: numberOf(rateLimitPerAddress),
    projectId: textOrNull(projectId),
    scriptPath: textOrNull(scriptPath),
  };
  return Object.fromEntries(changedFields(base, draft).map((name) => [name, wanted[name]]));
}

export const SOURCE_FORM: RecordForm<'sources', SourceDraft> = { list: 'sources', draftOf, patchOf };

export const SOURCE_LABELS: FieldLabels<SourceDraft> = {
  mode: 'A batch with an invalid call',
  whenDisabled: 'While disabled, calls are',
  dedupeWindow: 'A repeated messageId is a duplicate within',
  rateLimit: 'Calls a second',
  rateLimitPerAddress: 'Limit for one address',
  projectId: 'projectId in the format segment',
  scriptPath: 'Path of the script',
  ip: 'The address of a caller, context.ip, is',
  trust: 'Its write keys are',
  consent: 'A call that says nothing of consent',
};
