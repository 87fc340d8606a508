import { useQuery } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import { useState } from 'react';
import { ApiError, sentence } from '../../api/client.ts';
import { useMay } from '../../api/roles.ts';
import { sessionQuery } from '../../api/session.ts';
import { Button, CopyButton, Field, Segmented, TextInput } from '../../ui/controls.tsx';
import { ConfirmDialog, Dialog, FormDialog } from '../../ui/dialog.tsx';
import { EmptyState, Failure, Notice, SkeletonRows } from '../../ui/empty-state.tsx';
import { Page, Section } from '../../ui/page.tsx';
import { RelativeTime } from '../../ui/time.tsx';
import { toast } from '../../ui/toast.tsx';
import { Preferences } from './preferences.tsx';
import { type NewToken, type Token, tokensQuery, useCreateToken, useRevokeToken } from './queries.ts';
import { SettingSections } from './section-tabs.tsx';
import '../../ui/form.css';

/** Who may sign in, and how this browser shows things. */
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

const ROLES =
  'A viewer reads everything but tokens. An editor also changes records, redelivers and replays. An admin also makes tokens, backups and deletions.';

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
  const [isMaking, setIsMaking] = useState(false);
  const [revoked, setRevoked] = useState<Token>();
  return (
    <Section
      title="Tokens"
      about={tokens.data?.length}
      aside={
        <Button isSmall onClick={() => setIsMaking(true)}>
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
      {isMaking && <NewTokenDialog onClose={() => setIsMaking(false)} />}
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
              <th>Last used</th>
              <th aria-label="Actions" />
            </tr>
          </thead>
          <tbody>
            {tokens.map((token) => (
              <tr key={token.name}>
                <td className="w med">{token.name}</td>
                <td>{token.role}</td>
                <td className="mono dim c-lo">…{token.hint}</td>
                <td className="soft c-lo">
                  <RelativeTime at={token.createdAt} />
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

function NewTokenDialog({ onClose }: { readonly onClose: () => void }) {
  const [name, setName] = useState('');
  const [role, setRole] = useState<Token['role']>('viewer');
  const create = useCreateToken();
  if (create.data !== undefined) return <MadeToken made={create.data} onClose={onClose} />;
  const fault = create.error instanceof ApiError ? create.error.fields[0]?.message : undefined;
  return (
    <FormDialog
      title="New token"
      action="Make token"
      isReady={name.trim() !== ''}
      onSubmit={() => create.mutateAsync({ name: name.trim(), role })}
      onClose={onClose}
    >
      <Field
        label="Name"
        hint="Of the person or the program; the trail of changes names it."
        error={create.error === null ? undefined : (fault ?? sentence(create.error))}
      >
        {(control) => (
          <TextInput {...control} value={name} onChange={({ target }) => setName(target.value)} />
        )}
      </Field>
      <Segmented
        label="Role"
        value={role}
        options={[
          { value: 'viewer', label: 'viewer' },
          { value: 'editor', label: 'editor' },
          { value: 'admin', label: 'admin' },
        ]}
        onChange={setRole}
      />
      <p className="hint">{ROLES}</p>
    </FormDialog>
  );
}

/** The only place where a token is ever shown. */
function MadeToken({
  made: { name, token, role },
  onClose,
}: {
  readonly made: NewToken;
  readonly onClose: () => void;
}) {
  return (
    <Dialog
      title={`The token of ${name}`}
      onClose={onClose}
      foot={
        <Button kind="primary" onClick={onClose}>
          I have kept it
        </Button>
      }
    >
      <Notice tone="warn">It is shown now and never again. Whoever has it is {role} here.</Notice>
      <div className="rowx">
        <code className="mono wrap-any">{token}</code>
        <CopyButton text={token} label="Copy token" kind="plain" />
      </div>
    </Dialog>
  );
}

function RevokeDialog({
  token: { name, role },
  onClose,
}: {
  readonly token: Token;
  readonly onClose: () => void;
}) {
  const revoke = useRevokeToken();
  return (
    <ConfirmDialog
      title={`Revoke the token of ${name}`}
      action="Revoke token"
      typed={name}
      isDangerous
      onConfirm={async () => {
        await revoke.mutateAsync(name);
        toast(`The token of ${name} is revoked.`);
      }}
      onClose={onClose}
    >
      <p>
        1 token with the role {role} works no more, at once; whoever is signed in with it is signed out. What{' '}
        {name} has changed stays, and stays in the trail.
      </p>
    </ConfirmDialog>
  );
}
