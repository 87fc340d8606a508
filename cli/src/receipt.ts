import { count, counted, printable } from './column.ts';

/** The answer of `regulations`, as far as it is shown. */
export interface ShownRegulation {
  readonly id: string;
  readonly type: string;
  readonly overallStatus: string;
  readonly createdAt: string;
  readonly erasedAt?: string;
  readonly erasedFrom?: 'files' | 'tables';
  readonly finishedAt?: string;
  readonly by: string;
  readonly subjects: number;
  readonly belongToUsers?: number;
  readonly unknown?: number | null;
  readonly joined?: readonly {
    readonly rule: string | null;
    readonly source: string | null;
    readonly ids: number;
  }[];
  readonly leftOut?: number;
  readonly silent?: true;
  readonly untold?: readonly string[];
  readonly erased: { readonly events: number; readonly deliveries: number; readonly deadLetters: number };
  readonly profiles?: number;
  readonly streamStatus: readonly {
    readonly source: string;
    readonly destination: string;
    readonly endpoint: string;
    readonly status: string;
    readonly sent: number;
    readonly confirmed: number;
    readonly confirmedAt?: string;
    readonly answer?: { readonly status?: number; readonly reason?: string };
  }[];
  readonly reason?: string;
}

/** Checks only enough to recognise another version. */
export function isRegulation(value: unknown): value is ShownRegulation {
  return typeof value === 'object' && value !== null && 'streamStatus' in value && 'erased' in value;
}

/** True when it has ended, and not everything was done or confirmed. */
export function isIncomplete({ overallStatus }: ShownRegulation): boolean {
  return ['PARTIAL_SUCCESS', 'FAILED'].includes(overallStatus);
}

/**
 * The receipt as an auditor reads it: who asked for what and when, what is gone, and who has confirmed it
 * when.
 */
export function receiptLines(shown: ShownRegulation): string[] {
  const { id, type, overallStatus, createdAt, finishedAt, by } = shown;
  const { subjects, streamStatus, reason } = shown;
  const { belongToUsers = 0, silent = false, untold = [] } = shown;
  const unknown = shown.unknown ?? 0;
  const isErasing = type === 'DELETE_ONLY' || type === 'SUPPRESS_WITH_DELETE';
  return [
    printable(
      `${id}  ${type} of ${counted(subjects, 'user')}: ${overallStatus}${reason === undefined ? '' : ` (${reason})`}`,
    ),
    `  asked for: ${createdAt} by ${printable(by)}`,
    ...(unknown > 0 ? [`  names nobody: ${count(unknown)} of ${counted(subjects, 'id')}`] : []),
    ...(belongToUsers > 0
      ? [
          `  belongs to users, so nothing was done of it: ${count(belongToUsers)} of ${counted(subjects, 'id')}`,
        ]
      : []),
    ...joinedLines(shown),
    ...(finishedAt === undefined ? [] : [`  ended: ${finishedAt}`]),
    ...(isErasing ? [`  erased: ${erasedText(shown)}`] : []),
    ...goneLines(shown),
    ...streamStatus.map(({ source, destination, endpoint, status, sent, confirmed, confirmedAt, answer }) => {
      const when = confirmedAt === undefined ? '' : `, the last at ${confirmedAt}`;
      const why = answer?.reason === undefined ? '' : `, last answer ${printable(answer.reason)}`;
      const names = [source, destination, endpoint].map(printable).join(' → ');
      return `  ${names}: ${status}, ${count(confirmed)} of ${count(sent)} confirmed${when}${why}`;
    }),
    ...(silent ? ['  no destination is told: it was asked to be silent'] : []),
    ...untold.map(
      (name) =>
        `  ${printable(name)} only passes calls on and is not told: delete them in the service behind it too`,
    ),
  ];
}

/** A joined id, as a dry run and the subjects of a regulation name it. */
export interface ShownJoin {
  readonly kind: string;
  readonly value: string;
  readonly rule: string | null;
  readonly source: string | null;
  readonly messageId: string | null;
  readonly at: string | null;
}

/** A user or visitor of a regulation, with everything that belongs to it. */
export interface ShownSubject {
  readonly userId?: string;
  readonly anonymousId?: string;
  readonly joins: readonly ShownJoin[];
  readonly leftOut: readonly ShownJoin[];
  readonly outcome?: string;
  readonly unknown: boolean | null;
}

/** The users of a regulation, and what joined each of their ids. */
export function subjectLines(subjects: readonly ShownSubject[]): string[] {
  return subjects.flatMap(({ userId, anonymousId, joins, leftOut, outcome, unknown }) => {
    const name = userId === undefined ? `anonymous ${printable(anonymousId ?? '')}` : printable(userId);
    const note =
      outcome === 'belongs_to_a_user'
        ? ': belongs to a user, so nothing is done of it'
        : unknown === true
          ? ': names nobody'
          : '';
    return [
      `${name}${note}`,
      ...joins.map((join) => `  with ${joinText(join)}`),
      ...leftOut.map(
        (join) => `  left out, because client sources alone have joined it (--confirm): ${joinText(join)}`,
      ),
    ];
  });
}

/** The answer to the dry run of a deletion. Earlier servers leave the counts out. */
export interface ShownForeseen {
  readonly found?: readonly ShownSubject[];
  readonly events?: number;
  readonly profiles?: number;
  readonly destinations?: readonly string[];
}

/** The users that a regulation would affect, and what it would erase and send. */
export function foreseenLines({
  found = [],
  events,
  profiles = 0,
  destinations = [],
}: ShownForeseen): string[] {
  const names = destinations.map(printable).join(', ');
  return [
    ...subjectLines(found),
    ...(events === undefined
      ? []
      : [
          `would erase ${counted(events, 'event')} and ${counted(profiles, 'profile')}`,
          `would tell ${destinations.length === 0 ? 'no destination' : names}`,
        ]),
  ];
}

function joinText({ kind, value, rule, source, messageId, at }: ShownJoin): string {
  const by = rule === null ? 'joined by an event that is gone' : `joined by ${rule}`;
  const from = source === null ? '' : ` of ${printable(source)}`;
  const event = messageId === null ? '' : `, event ${printable(messageId)}`;
  return `${kind} ${printable(value)}, ${by}${from}${at === null ? '' : ` at ${at}`}${event}`;
}

function joinedLines({ joined = [], leftOut = 0 }: ShownRegulation): string[] {
  const ids = joined.reduce((sum, one) => sum + one.ids, 0);
  const parts = joined.map((one) => {
    const by = one.rule === null ? 'by an event that is gone' : `by ${one.rule}`;
    return `${count(one.ids)} ${by}${one.source === null ? '' : ` of ${printable(one.source)}`}`;
  });
  return [
    ...(ids === 0 ? [] : [`  with ${counted(ids, 'joined id')}: ${parts.join(', ')}`]),
    ...(leftOut === 0
      ? []
      : [
          `  left out: ${counted(leftOut, 'userId')} that client sources alone have joined (--confirm takes them along)`,
        ]),
  ];
}

function goneLines({ erasedAt, erasedFrom = 'files' }: ShownRegulation): string[] {
  if (erasedAt === undefined) return [];
  if (erasedFrom === 'files') return [`  gone from the files: ${erasedAt}`];
  return [
    `  gone from the tables of the database: ${erasedAt}`,
    '  its write-ahead log, archives, standbys and base backups keep copies until they are recycled or removed',
  ];
}

function erasedText({ erased: { events, deliveries, deadLetters }, profiles }: ShownRegulation): string {
  return [
    counted(events, 'event'),
    deliveries === 1 ? '1 delivery' : `${count(deliveries)} deliveries`,
    counted(deadLetters, 'dead letter'),
    ...(profiles === undefined ? [] : [counted(profiles, 'profile')]),
  ].join(', ');
}
