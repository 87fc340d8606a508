import type { Status } from '../../api/queries.ts';
import { Notice } from '../../ui/empty-state.tsx';
import { bytes, duration } from '../../ui/format.ts';
import { Section } from '../../ui/page.tsx';
import { StateMark } from '../../ui/state-mark.tsx';
import { RelativeTime } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import '../../ui/table.css';

type Node = NonNullable<Status['nodes']>[number];
type GoneNode = NonNullable<Status['goneNodes']>[number];
type Database = NonNullable<Status['database']>;

/** The nodes that share a database: which are alive, their jobs, and the state of the database. */
export function NodesSection({ status: { nodes, goneNodes = [], database } }: { readonly status: Status }) {
  if (nodes === undefined) return null;
  const gone = goneNodes.length === 0 ? '' : `, ${goneNodes.length} gone`;
  return (
    <Section title="Nodes" about={`${nodes.length} on one database${gone}`}>
      <div className="stack-s">
        {database !== undefined && <DatabaseNotices database={database} />}
        <div className="box bleed">
          <table className="tbl">
            <thead className="c-lo">
              <tr>
                <th>Node</th>
                <th>Lease</th>
                <th className="c-md">Version</th>
                <th>Started</th>
                <th className="c-md">Roles</th>
                <th>Alone does</th>
              </tr>
            </thead>
            <tbody>
              {nodes.map((node) => (
                <NodeRow key={node.name} node={node} />
              ))}
              {goneNodes.map((node) => (
                <GoneNodeRow key={node.name} node={node} />
              ))}
            </tbody>
          </table>
          {database !== undefined && <div className="tfoot">{databaseText(database)}</div>}
        </div>
      </div>
    </Section>
  );
}

function NodeRow({ node }: { readonly node: Node }) {
  const { name, isSelf, roles, version, since, leaseLeftMs, jobs } = node;
  return (
    <tr>
      <td className="med">
        {visibleLine(name, 40)} {isSelf && <span className="dim">answers you</span>}
      </td>
      <td>
        <StateMark
          state={leaseLeftMs > 0 ? 'healthy' : 'failing'}
          label={leaseLeftMs > 0 ? 'alive' : 'lease over'}
        />
      </td>
      <td className="num soft c-md">{version}</td>
      <td className="soft c-lo">
        <RelativeTime at={since} />
      </td>
      <td className="soft c-md">{roles.join(', ')}</td>
      <td className="w soft">{jobs.join(', ')}</td>
    </tr>
  );
}

function GoneNodeRow({ node }: { readonly node: GoneNode }) {
  const { name, roles, version, lastSeenAt, takenOverBy } = node;
  return (
    <tr>
      <td className="med">{visibleLine(name, 40)}</td>
      <td>
        <StateMark state="failing" label="gone" />
      </td>
      <td className="num soft c-md">{version}</td>
      <td className="c-lo" />
      <td className="soft c-md">{roles.join(', ')}</td>
      <td className="w soft">
        last seen <RelativeTime at={lastSeenAt} />, {visibleLine(takenOverBy, 40)} took over
      </td>
    </tr>
  );
}

function DatabaseNotices({ database: { problems } }: { readonly database: Database }) {
  return problems.map(({ isSevere, found, advice }) => (
    <Notice key={found} tone={isSevere ? 'bad' : 'warn'}>
      {visibleLine(found, 200)}: {visibleLine(advice, 300)}
    </Notice>
  ));
}

function databaseText({ version, standbys }: Database): string {
  const copies = standbys.map(({ name, isSynchronous, behindBytes, behindMs = 0 }) => {
    if (isSynchronous === undefined)
      return `standby ${visibleLine(name, 40)}: hidden from the user of the database`;
    const lag = behindBytes === undefined ? 'lag unknown' : `${bytes(behindBytes)} behind`;
    const waits = isSynchronous ? 'commits wait for it' : 'not waited for';
    return `standby ${visibleLine(name, 40)}: ${lag}, confirms in ${duration(behindMs)}, ${waits}`;
  });
  return [`PostgreSQL ${version}`, ...copies].join(' · ');
}
