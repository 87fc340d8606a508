import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import type { Tagged } from '../../api/client.ts';
import { statusQuery } from '../../api/queries.ts';
import { recordQuery } from '../../api/records.ts';
import { FileMark } from '../../editing/file-records.tsx';
import { Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { exactNumber } from '../../ui/format.ts';
import { LedgerSum } from '../../ui/ledger-sum.tsx';
import { Crumbs, Page } from '../../ui/page.tsx';
import { RecordChanges } from '../../ui/record-changes.tsx';
import { Badge, StateMark } from '../../ui/state-mark.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { own, sum } from '../destinations/rows.ts';
import { SourceComparison } from './comparison.tsx';
import { Discards } from './discards.tsx';
import type { SourceRecord } from './queries.ts';
import { SendSteps } from './send-steps.tsx';
import { SourceSettings } from './source-settings.tsx';
import type { Tab } from './views.ts';
import { WriteKeys } from './write-keys.tsx';

const route = getRouteApi('/shell/sources/$name');

/** Page of a source: how to send to it, what came, and what was discarded. */
export function SourcePage() {
  const { name } = route.useParams();
  const source = useQuery(recordQuery('sources', name));
  return (
    <Page
      title={visibleLine(name)}
      crumbs={
        <Crumbs>
          <Link to="/sources">Sources</Link>
          <span>{visibleLine(name)}</span>
        </Crumbs>
      }
      about={
        <>
          {source.data !== undefined && <SourceBadge source={source.data.record} />}
          <FileMark list="sources" name={name} />
        </>
      }
    >
      {source.error !== null && <Failure error={source.error} />}
      {source.data !== undefined && (
        <>
          <SourceSum name={name} />
          <SourceTabs stored={source.data} />
        </>
      )}
      {source.isPending && <SkeletonRows />}
    </Page>
  );
}

function SourceBadge({ source: { name, enabled, shadow } }: { readonly source: SourceRecord }) {
  const { data } = useQuery(statusQuery);
  if (shadow === true) return <Badge state="pending" label="shadow: compared, never delivered" />;
  if (!enabled) return <Badge state="disabled" />;
  const received = own(data?.sources, name)?.received ?? 0;
  return received === 0 ? (
    <Badge state="pending" label="no events yet" />
  ) : (
    <Badge state="healthy" label="receiving" />
  );
}

/** received = accepted + duplicates + discarded, written as a sum. */
function SourceSum({ name }: { readonly name: string }) {
  const { data } = useQuery(statusQuery);
  const counts = own(data?.sources, name);
  if (counts === undefined || counts.received === 0) return null;
  const { received, accepted, duplicates } = counts;
  const discarded = sum(counts.discarded);
  return (
    <LedgerSum
      name={name}
      total={{ label: 'Received', value: received }}
      terms={[
        { label: 'Accepted', state: 'accepted', value: accepted },
        { label: 'Duplicates', state: 'duplicate', value: duplicates },
        { label: 'Discarded', state: 'discarded', value: discarded },
      ]}
      balance={received - accepted - duplicates - discarded}
    />
  );
}

function SourceTabs({ stored }: { readonly stored: Tagged<SourceRecord> }) {
  const { record: source } = stored;
  const { name } = source;
  const { tab = 'send' } = route.useSearch();
  const navigate = useNavigate();
  return (
    <Tabs
      label={`Views of ${name}`}
      value={tab}
      onChange={(value) =>
        void navigate({
          to: '/sources/$name',
          params: { name },
          search: { tab: value as Tab },
        })
      }
      tabs={[
        {
          value: 'send',
          label: 'Send',
          content: (
            <div className="side">
              <SendSteps source={source} />
              <aside className="stack">
                <WriteKeys source={source} />
                <NothingArrives />
              </aside>
            </div>
          ),
        },
        { value: 'discards', label: 'Discards', content: <Discards name={name} /> },
        { value: 'compare', label: 'Compare', content: <SourceComparison name={name} /> },
        { value: 'settings', label: 'Settings', content: <SourceSettings key={name} stored={stored} /> },
        { value: 'changes', label: 'Changes', content: <RecordChanges kind="source" name={name} /> },
      ]}
    />
  );
}

/** Shows what to check while no call arrives. Calls with an unknown key belong to no source. */
function NothingArrives() {
  const { data } = useQuery(statusQuery);
  const { discarded = {}, refused = {} } = data?.callsOfNoSource ?? {};
  const unknown = (discarded['unknown_write_key'] ?? 0) + (refused['unknown_write_key'] ?? 0);
  return (
    <section>
      <div className="sec">
        <h2>Nothing arrives?</h2>
      </div>
      <ul className="stack-s soft">
        <li>
          A call with an unknown key is answered 401 and counted here:{' '}
          <StateMark
            state={unknown === 0 ? 'healthy' : 'failing'}
            label={`${exactNumber(unknown)} since the start`}
          />
        </li>
        <li>Libraries collect calls before they send: call flush, or wait ten seconds.</li>
        <li>
          In a browser, allow <span className="mono">{window.location.host}</span> under connect-src of your
          content security policy.
        </li>
      </ul>
    </section>
  );
}
