import { newVisitor, type RegulationSubject } from '../model/regulation.ts';
import type { Users } from '../ports/users.ts';
import { JoinEvidence } from './joins.ts';
import { lookAt, readJoining, type SurveyDependencies } from './survey.ts';

export interface VisitorDependencies extends Pick<SurveyDependencies, 'log' | 'trusted' | 'checkStop'> {
  readonly users: Pick<Users, 'visitors'>;
}

/**
 * Finds everything that belongs to visitors without a userId: the anonymous ids that were joined to theirs,
 * and the sources that saw them. If a user has the id, by its profile or in a stored event, the id belongs to
 * that user and nothing is found for the visitor.
 */
export async function surveyVisitors(
  anonymousIds: readonly string[],
  { log, users, trusted, checkStop }: VisitorDependencies,
): Promise<{ readonly subjects: readonly RegulationSubject[]; readonly profiles: number }> {
  const known = await users.visitors(anonymousIds);
  const subjects = anonymousIds.map((anonymousId, nth) => ({
    ...newVisitor(anonymousId),
    belongsToUser: known[nth]?.userId !== undefined,
    anonymousIds: [...new Set([anonymousId, ...(known[nth]?.anonymousIds ?? [])])],
    externalIds: known[nth]?.externalIds,
    evidence: new JoinEvidence(known[nth]?.joins),
    sources: new Set(known[nth]?.sources ?? []),
  }));
  const open = () => subjects.filter(({ belongsToUser }) => !belongsToUser);
  const all = [...new Set(open().flatMap((subject) => subject.anonymousIds))];
  const ofUsers = new Set<string>();
  for (let from: number | undefined = 0; from !== undefined && all.length > 0; ) {
    checkStop();
    const found = await log.sharedIds({ ids: all, owners: [], trusted }, from);
    for (const id of found.shared) ofUsers.add(id);
    from = found.next;
  }
  for (const subject of subjects)
    if (subject.anonymousIds.some((id) => ofUsers.has(id))) subject.belongsToUser = true;
  const ofId = new Map(open().flatMap((subject) => subject.anonymousIds.map((id) => [id, subject] as const)));
  await lookAt({ userIds: [], anonymousIds: [...ofId.keys()] }, { log, checkStop }, (ids, { source }) => {
    ofId.get(ids.anonymousId ?? '')?.sources.add(source);
  });
  const profiles = new Set(
    known.flatMap((one, nth) => (one === undefined || subjects[nth]!.belongsToUser ? [] : [one.profile])),
  );
  const positions = open().flatMap(({ evidence }) => evidence.positions());
  const events = await readJoining(positions, { log, checkStop });
  return {
    subjects: subjects.map(({ belongsToUser, externalIds, sources, evidence, ...subject }) => {
      if (belongsToUser) return { ...subject, anonymousIds: [], sources: [], belongsToUser };
      const further = subject.anonymousIds.filter((id) => id !== subject.anonymousId);
      const joins = further.map((id) => evidence.join('anonymous', id, events));
      const external = externalIds === undefined ? {} : { externalIds };
      return { ...subject, ...external, sources: [...sources].sort((a, b) => a - b), joins };
    }),
    profiles: profiles.size,
  };
}
