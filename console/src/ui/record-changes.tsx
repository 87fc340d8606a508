import { queryOptions, useQuery } from '@tanstack/react-query';
import { type Answer, answer, api } from '../api/client.ts';
import { EmptyState, Failure, SkeletonRows } from './empty-state.tsx';
import { RecordDiff } from './record-diff.tsx';
import { RelativeTime } from './time.tsx';
import './table.css';

type AuditEntry = Answer<'/api/v1/audit', 'get'>['data'][number];

/** The last changes of a record. */
const changesQuery = (kind: AuditEntry['kind'], name: string) =>
  queryOptions({
    queryKey: ['audit', kind, name],
    queryFn: async ({ signal }) =>
      (await answer(api.GET('/api/v1/audit', { params: { query: { kind, name, limit: 50 } }, signal }))).data,
  });

interface RecordChangesProps {
  readonly kind: AuditEntry['kind'];
  readonly name: string;
}

/** The changes of a record with their authors, the newest first. */
export function RecordChanges({ kind, name }: RecordChangesProps) {
  const changes = useQuery(changesQuery(kind, name));
  if (changes.isPending) return <SkeletonRows rows={3} />;
  if (changes.error !== null) return <Failure error={changes.error} />;
  if (changes.data.length === 0) {
    return (
      <div className="box">
        <EmptyState title="No changes">Every change of this record is kept here, with its author.</EmptyState>
      </div>
    );
  }
  return (
    <div className="stack-s">
      {changes.data.map(({ at, by, action, before, after }) => (
        <div key={`${at} ${action}`} className="box bleed">
          <div className="tfoot no-line">
            <span className="med ink">{action}</span> by {by} <RelativeTime at={at} />
          </div>
          <RecordDiff before={before} after={after} label={`What ${by} has ${action}`} />
        </div>
      ))}
    </div>
  );
}
