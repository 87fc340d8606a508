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

/** The receipt as an auditor reads it: who asked for what and when, what is gone, and who has confirmed it when. */
export function receiptLines(shown: ShownRegulation): string[] {
  const { id, type, overallStatus, createdAt, finishedAt, by } = shown;
  const { subjects, streamStatus, reason } = shown;
  const { belongToUsers = 0 } = shown;
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
    ...(finishedAt === undefined ? [] : [`  ended: ${finishedAt}`]),
    ...(isErasing ? [`  erased: ${erasedText(shown)}`] : []),
    ...goneLines(shown),
    ...streamStatus.map(({ source, destination, endpoint, status, sent, confirmed, confirmedAt, answer }) => {
      const when = confirmedAt === undefined ? '' : `, the last at ${confirmedAt}`;
      const why = answer?.reason === undefined ? '' : `, last answer ${printable(answer.reason)}`;
      const names = [source, destination, endpoint].map(printable).join(' → ');
      return `  ${names}: ${status}, ${count(confirmed)} of ${count(sent)} confirmed${when}${why}`;
    }),
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
