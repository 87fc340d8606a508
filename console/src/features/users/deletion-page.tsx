import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { Printer, ShieldCheck } from 'lucide-react';
import { useMay } from '../../api/roles.ts';
import { Button, CopyButton } from '../../ui/controls.tsx';
import { EmptyState, Failure, Notice, SkeletonRows } from '../../ui/empty-state.tsx';
import { exactNumber, plural } from '../../ui/format.ts';
import { Icon } from '../../ui/icons.tsx';
import { Crumbs, Page, Section } from '../../ui/page.tsx';
import { Clock, RelativeTime } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { joinedText } from './joined-ids.ts';
import { regulationQuery, subjectsQuery } from './queries.ts';
import {
  confirmationsOf,
  effectOf,
  goneText,
  isErasing,
  type Regulation,
  receiptText,
  titleOf,
} from './receipt.ts';
import { NotificationState, RegulationState } from './regulation-state.tsx';
import { RegulationWay } from './regulation-way.tsx';
import { SubjectsList } from './subjects-list.tsx';
import './receipt.css';
import '../../ui/table.css';

const route = getRouteApi('/shell/users/deletions/$id');

/** Page of a regulation: its course and its receipt. */
export function DeletionPage() {
  const { id } = route.useParams();
  const { data, error } = useQuery(regulationQuery(id));
  const isAdmin = useMay('admin');
  return (
    <Page
      title={data === undefined ? 'Deletion' : titleOf(data)}
      crumbs={
        <Crumbs>
          <Link to="/users">Users</Link>
          <Link to="/users/deletions">Deletions</Link>
          <span className="mono">{visibleLine(id)}</span>
        </Crumbs>
      }
      about={data !== undefined && <RegulationState regulation={data} isBadge />}
      actions={
        data !== undefined && (
          <>
            <CopyButton text={() => receiptText(data)} label="Copy receipt" kind="plain" isTall />
            <Button kind="primary" onClick={() => window.print()}>
              <Printer className="i" aria-hidden />
              Print receipt
            </Button>
          </>
        )
      }
    >
      {error !== null && <Failure error={error} />}
      {data === undefined ? (
        error === null && <SkeletonRows />
      ) : (
        <div className="side">
          <div className="stack">
            {data.reason !== undefined && <Notice tone="warn">{data.reason}</Notice>}
            <p className="soft">
              Asked for by <b className="med ink">{visibleLine(data.by)}</b>{' '}
              <RelativeTime at={data.createdAt} />: {effectOf(data.type)}.
            </p>
            <RegulationWay regulation={data} />
            {isAdmin && data.finishedAt === undefined && <Subjects id={id} />}
            <Notifications regulation={data} />
          </div>
          <aside>
            <Receipt regulation={data} />
          </aside>
        </div>
      )}
    </Page>
  );
}

/** Shows the affected users until the regulation has ended; their ids are erased then. */
function Subjects({ id }: { readonly id: string }) {
  const { data } = useQuery(subjectsQuery(id));
  if (data === undefined || data.data.length === 0) return null;
  return (
    <Section title="Whom it takes" about="until it has ended">
      <div className="box pad">
        <SubjectsList subjects={data.data} />
      </div>
    </Section>
  );
}

function Notifications({ regulation }: { readonly regulation: Regulation }) {
  const { streamStatus, type, finishedAt } = regulation;
  if (!isErasing(type)) return null;
  return (
    <Section title="Notifications" about="one for each source that has seen the user">
      <div className="box bleed">
        {streamStatus.length === 0 ? (
          <EmptyState title={finishedAt === undefined ? 'Not yet told' : 'Nobody had to be told'}>
            {regulation.silent === true
              ? 'The request asked for a silent deletion: no destination is told.'
              : 'Every endpoint of every destination whose sources have seen the user gets a delete notification.'}
          </EmptyState>
        ) : (
          <table className="tbl">
            <thead>
              <tr>
                <th>State</th>
                <th className="w">Destination</th>
                <th className="c-lo">Source</th>
                <th className="c-lo">Answer</th>
                <th className="r c-lo">At</th>
              </tr>
            </thead>
            <tbody>
              {streamStatus.map((stream) => (
                <NotificationRow
                  key={`${stream.source} ${stream.destination} ${stream.endpoint}`}
                  stream={stream}
                />
              ))}
            </tbody>
          </table>
        )}
      </div>
      {regulation.untold !== undefined && (
        <p className="hint">
          {`${visibleLine(regulation.untold.join(', '), 500)} only passes calls on and is not told: delete the users in the service behind it too.`}
        </p>
      )}
    </Section>
  );
}

type Stream = Regulation['streamStatus'][number];

function NotificationRow({ stream }: { readonly stream: Stream }) {
  const { status, destination, endpoint, source, answer, confirmedAt } = stream;
  return (
    <tr>
      <td>
        <NotificationState status={status} />
      </td>
      <td className="w">
        <Link to="/destinations/$name" params={{ name: destination }} className="med">
          {visibleLine(destination)}
        </Link>{' '}
        <span className="mono dim c-md">{visibleLine(endpoint)}</span>
        <span className="sub">{visibleLine(source)}</span>
      </td>
      <td className="soft c-lo">{visibleLine(source)}</td>
      <td
        className="soft mono c-lo"
        title={answer?.body === undefined ? undefined : visibleLine(answer.body)}
      >
        {answer?.status ?? answer?.reason ?? '—'}
      </td>
      <td className="r dim c-lo">{confirmedAt === undefined ? '—' : <Clock at={confirmedAt} />}</td>
    </tr>
  );
}

/** The receipt, which looks like paper. */
function Receipt({ regulation }: { readonly regulation: Regulation }) {
  const { id, type, subjects, unknown, createdAt, erasedAt, finishedAt, erased, profiles } = regulation;
  const { leftOut } = regulation;
  const joined = joinedText(regulation);
  const { confirmed, all } = confirmationsOf(regulation);
  const rows: readonly (readonly [string, string])[] = [
    ['Events', exactNumber(erased.events)],
    ['Pending deliveries', exactNumber(erased.deliveries)],
    ['Dead letters and saved answers', exactNumber(erased.deadLetters)],
    ...(profiles === undefined ? [] : [['Profiles', exactNumber(profiles)] as const]),
    ['Endpoints that confirmed', `${confirmed} of ${all}`],
  ];
  return (
    <section className="receipt" aria-label="Receipt of erasure">
      <div className="rh">
        <Icon name="logo" />
        <span className="strong">{isErasing(type) ? 'Receipt of erasure' : 'Receipt'}</span>
      </div>
      <dl>
        <dt>Regulation</dt>
        <dd className="mono">{id}</dd>
        <dt>Kind</dt>
        <dd className="mono">{type}</dd>
        <dt>Users</dt>
        <dd className="num">
          {exactNumber(subjects)}
          {(unknown ?? 0) > 0 && `, of which ${exactNumber(unknown ?? 0)} name nobody`}, their ids are not
          kept here
        </dd>
        {joined !== '' && (
          <>
            <dt>Joined ids</dt>
            <dd>{visibleLine(joined, 400)}</dd>
          </>
        )}
        {leftOut !== undefined && (
          <>
            <dt>Left out</dt>
            <dd className="num">{plural(leftOut, 'userId')} that client sources alone have joined</dd>
          </>
        )}
        <dt>Asked for</dt>
        <dd className="num">{createdAt}</dd>
        {erasedAt !== undefined && (
          <>
            <dt>Erased</dt>
            <dd className="num">{goneText(regulation)}</dd>
          </>
        )}
        <dt>Finished</dt>
        <dd className="num">{finishedAt ?? 'not yet'}</dd>
      </dl>
      {isErasing(type) && (
        <>
          <table>
            <tbody>
              {rows.map(([name, value]) => (
                <tr key={name}>
                  <td>{name}</td>
                  <td>{value}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {finishedAt !== undefined && (
            <p>
              <ShieldCheck className="i i-s" aria-hidden />
              <span>
                Erased from the data folder. A backup that is restored is cleaned again before it serves.
              </span>
            </p>
          )}
        </>
      )}
    </section>
  );
}
