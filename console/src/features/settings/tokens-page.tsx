import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { Plus } from 'lucide-react';
import { useState } from 'react';
import { useMay } from '../../api/roles.ts';
import { sessionQuery } from '../../api/session.ts';
import { Button } from '../../ui/controls.tsx';
import { EmptyState, Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { Page, Section } from '../../ui/page.tsx';
import { RelativeTime } from '../../ui/time.tsx';
import { Preferences } from './preferences.tsx';
import { type Token, tokensQuery } from './queries.ts';
import { SettingSections } from './section-tabs.tsx';
import { NewTokenDialog, RevokeDialog, ROLES } from './token-dialogs.tsx';
import '../../ui/table.css';

const route = getRouteApi('/shell/settings');

/** Page of tokens, and of preferences of this browser. */
export function TokensPage() {
  const isAdmin = useMay('admin');
  return (
    <Page title="Settings">
      <SettingSections />
      {isAdmin ? <Tokens /> : <OwnAccess />}
      <Preferences />
    </Page>
  );
}

function OwnAccess() {
  const { data: session } = useQuery(sessionQuery);
  return (
    <Section title="Access">
      <p>
        You are signed in as <b className="med">{session?.name}</b>, with the role{' '}
        <b className="med">{session?.role}</b>.
      </p>
      <p className="hint">{ROLES} Only an admin sees the tokens.</p>
    </Section>
  );
}

function Tokens() {
  const tokens = useQuery(tokensQuery);
  const { new: isMaking } = route.useSearch();
  const navigate = route.useNavigate();
  const [revoked, setRevoked] = useState<Token>();
  return (
    <Section
      title="Tokens"
      about={tokens.data?.length}
      aside={
        <Button isSmall onClick={() => void navigate({ search: { new: true } })}>
          <Plus className="i i-s" aria-hidden />
          New token
        </Button>
      }
    >
      {tokens.error !== null && <Failure error={tokens.error} />}
      {tokens.isPending ? (
        <SkeletonRows rows={3} />
      ) : (
        <TokenTable tokens={tokens.data ?? []} onRevoke={setRevoked} />
      )}
      <p className="hint">{ROLES}</p>
      {isMaking === true && <NewTokenDialog onClose={() => void navigate({ search: {}, replace: true })} />}
      {revoked !== undefined && <RevokeDialog token={revoked} onClose={() => setRevoked(undefined)} />}
    </Section>
  );
}

interface TokenTableProps {
  readonly tokens: readonly Token[];
  readonly onRevoke: (token: Token) => void;
}

function TokenTable({ tokens, onRevoke }: TokenTableProps) {
  return (
    <div className="box bleed">
      {tokens.length === 0 ? (
        <EmptyState title="Only the admin token">
          Make one token for each person and each program: the trail of changes then says who it was.
        </EmptyState>
      ) : (
        <table className="tbl">
          <thead>
            <tr>
              <th className="w">Name</th>
              <th>Role</th>
              <th className="c-lo">Ends in</th>
              <th className="c-lo">Made</th>
              <th>Ends</th>
              <th>Last used</th>
              <th>
                <span className="sr">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {tokens.map((token) => (
              <tr key={token.name}>
                <td className="w med">{token.name}</td>
                <td>
                  {token.role}
                  <Reach token={token} />
                </td>
                <td className="mono dim c-lo">…{token.hint}</td>
                <td className="soft c-lo">
                  <RelativeTime at={token.createdAt} />
                </td>
                <td className="soft">
                  {token.expiresAt === undefined ? (
                    <span className="dim">never</span>
                  ) : (
                    <RelativeTime at={token.expiresAt} />
                  )}
                </td>
                <td className="soft">
                  {token.lastUsedAt === undefined ? (
                    <span className="dim">never</span>
                  ) : (
                    <RelativeTime at={token.lastUsedAt} />
                  )}
                </td>
                <td className="r">
                  <Button
                    kind="danger"
                    isSmall
                    onClick={() => onRevoke(token)}
                    aria-label={`Revoke ${token.name}…`}
                  >
                    Revoke…
                  </Button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}

/** The limits of a token in words; none for one that may do all that its role may. */
function Reach({ token: { sources, destinations, bodies } }: { readonly token: Token }) {
  const names = [...(sources ?? []), ...(destinations ?? [])];
  const words = [
    ...(names.length === 0 ? [] : [`for ${names.join(', ')}`]),
    ...(bodies === false ? ['no bodies'] : []),
  ];
  if (words.length === 0) return null;
  return <span className="dim clip"> {words.join('; ')}</span>;
}
