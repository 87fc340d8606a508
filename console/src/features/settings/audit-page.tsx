import { useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { Button, Select, TextInput } from '../../ui/controls.tsx';
import { EmptyState, Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { Inspector, Split } from '../../ui/inspector.tsx';
import { Page } from '../../ui/page.tsx';
import { RecordDiff } from '../../ui/record-diff.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Clock, RelativeTime } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { type AuditEntry, auditQuery } from './queries.ts';
import { KINDS, type RecordKind } from './record-kinds.ts';
import { SettingSections } from './section-tabs.tsx';

const route = getRouteApi('/shell/settings/audit');

/** The audit trail, the newest first, with the difference of an entry beside it. */
export function AuditPage() {
  const { kind, name, at } = route.useSearch();
  const navigate = useNavigate();
  const filter = { ...(kind === undefined ? {} : { kind }), ...(name === undefined ? {} : { name }) };
  const audit = useInfiniteQuery(auditQuery(filter));
  const rows = audit.data?.pages.flatMap(({ data }) => data) ?? [];
  const open = rows.find((entry) => idOf(entry) === at);
  const change = (search: { kind?: RecordKind; name?: string; at?: string }) =>
    void navigate({ to: '/settings/audit', search, replace: true });
  return (
    <Split
      label="The change"
      beside={open === undefined ? undefined : <Difference entry={open} onClose={() => change(filter)} />}
    >
      <Page title="Settings">
        <SettingSections />
        <div className="rowx">
          <Select
            aria-label="Kind of record"
            value={kind ?? ''}
            options={[
              { value: '', label: 'Any record' },
              ...KINDS.map((one) => ({ value: one, label: one })),
            ]}
            onChange={(value) =>
              change({
                ...(value === '' ? {} : { kind: value as RecordKind }),
                ...(name === undefined ? {} : { name }),
              })
            }
          />
          <TextInput
            isSmall
            className="search"
            type="search"
            aria-label="Name of the record"
            placeholder="Name of the record"
            value={name ?? ''}
            onChange={({ target }) =>
              change({
                ...(kind === undefined ? {} : { kind }),
                ...(target.value === '' ? {} : { name: target.value }),
              })
            }
          />
        </div>
        {audit.error !== null && <Failure error={audit.error} onRetry={() => void audit.refetch()} />}
        {audit.isPending ? (
          <SkeletonRows />
        ) : rows.length === 0 ? (
          <div className="box">
            <EmptyState title="No such change">
              Every change of a record is kept here with its author.
            </EmptyState>
          </div>
        ) : (
          <Table
            label="Changes"
            columns={COLUMNS}
            rows={rows}
            rowId={idOf}
            selected={at}
            onOpen={(entry) => change({ ...filter, at: idOf(entry) })}
            foot={
              audit.hasNextPage ? (
                <Button kind="quiet" isSmall onClick={() => void audit.fetchNextPage()}>
                  More
                </Button>
              ) : undefined
            }
          />
        )}
      </Page>
    </Split>
  );
}

/** Key of an entry: one commit may change several records at the same time. */
function idOf({ at, kind, name }: AuditEntry): string {
  return `${at} ${kind} ${name}`;
}

function Difference({ entry, onClose }: { readonly entry: AuditEntry; readonly onClose: () => void }) {
  const { at, by, action, kind, name, before, after } = entry;
  return (
    <Inspector
      title={`${kind} ${visibleLine(name)}`}
      about={
        <span className="soft">
          {action} by {visibleLine(by)} at <Clock at={at} />
        </span>
      }
      onClose={onClose}
    >
      <RecordDiff before={before} after={after} label={`What ${by} has ${action}`} />
      <p className="hint">Secrets are not shown, and their changes only as another hint.</p>
    </Inspector>
  );
}

const COLUMNS: readonly Column<AuditEntry>[] = [
  { id: 'at', header: 'When', className: 'dim', cell: ({ at }) => <RelativeTime at={at} /> },
  {
    id: 'what',
    header: 'Record',
    className: 'w',
    cell: ({ kind, name, action, by }) => (
      <>
        <span className="soft">{kind}</span> <span className="med">{visibleLine(name)}</span>
        <span className="sub">
          {action} by {visibleLine(by)}
        </span>
      </>
    ),
  },
  { id: 'action', header: 'Action', className: 'soft c-lo', cell: ({ action }) => action },
  { id: 'by', header: 'By', className: 'soft c-lo', cell: ({ by }) => visibleLine(by) },
];
