; The rules of the household world: one agent, furniture that holds items, and a few things to do with them.
(define (domain household)
  (:requirements :adl :typing)
  (:types agent place receptacle item receptaclekind itemkind)

  (:predicates
    (near ?a - agent ?p - place)                          ; where the agent stands
    (standsat ?r - receptacle ?p - place)                 ; where furniture stands; never changes
    (openable ?r - receptacle)                            ; hides what it holds until it is opened
    (opened ?r - receptacle)
    (inside ?o - item ?r - receptacle)                    ; in it or on it
    (holds ?a - agent ?o - item)
    (handsfull ?a - agent)                                ; one item at a time
    (receptaclekind ?r - receptacle ?k - receptaclekind)
    (itemkind ?o - item ?k - itemkind)
    (accepts ?rk - receptaclekind ?ok - itemkind)
    (portable ?o - item)
    (cleanable ?o - item)
    (heatable ?o - item)
    (coolable ?o - item)
    (cleans ?r - receptacle)
    (heats ?r - receptacle)
    (cools ?r - receptacle)
    (clean ?o - item)
    (hot ?o - item)
    (cold ?o - item)
    (lamp ?o - item)
    (shining ?o - item)
    (noticed ?x - object))                                ; only so that looking has an effect

  (:action look
    :parameters (?a - agent ?p - place)
    :precondition (and (near ?a ?p))
    :effect (and (noticed ?p)))

  (:action inventory
    :parameters (?a - agent)
    :precondition ()
    :effect (and (noticed ?a)))

  (:action walk
    :parameters (?a - agent ?from - place ?to - place ?r - receptacle)
    :precondition (and (near ?a ?from) (standsat ?r ?to))
    :effect (and (not (near ?a ?from)) (near ?a ?to)))

  (:action unclose
    :parameters (?a - agent ?p - place ?r - receptacle)
    :precondition (and (near ?a ?p) (standsat ?r ?p) (openable ?r) (not (opened ?r)))
    :effect (and (opened ?r)))

  (:action shut
    :parameters (?a - agent ?p - place ?r - receptacle)
    :precondition (and (near ?a ?p) (standsat ?r ?p) (openable ?r) (opened ?r))
    :effect (and (not (opened ?r))))

  (:action grasp
    :parameters (?a - agent ?p - place ?o - item ?r - receptacle)
    :precondition (and
      (near ?a ?p) (standsat ?r ?p)
      (portable ?o) (inside ?o ?r) (not (handsfull ?a))
      (or (not (openable ?r)) (opened ?r)))
    :effect (and (not (inside ?o ?r)) (holds ?a ?o) (handsfull ?a)))

  (:action release
    :parameters (?a - agent ?p - place ?o - item ?r - receptacle ?ok - itemkind ?rk - receptaclekind)
    :precondition (and
      (holds ?a ?o) (near ?a ?p) (standsat ?r ?p)
      (or (not (openable ?r)) (opened ?r))
      (itemkind ?o ?ok) (receptaclekind ?r ?rk) (accepts ?rk ?ok))
    :effect (and (inside ?o ?r) (not (holds ?a ?o)) (not (handsfull ?a))))

  (:action wash
    :parameters (?a - agent ?p - place ?r - receptacle ?o - item)
    :precondition (and (holds ?a ?o) (cleanable ?o) (near ?a ?p) (standsat ?r ?p) (cleans ?r))
    :effect (and (clean ?o)))

  (:action warm
    :parameters (?a - agent ?p - place ?r - receptacle ?o - item)
    :precondition (and (holds ?a ?o) (heatable ?o) (near ?a ?p) (standsat ?r ?p) (heats ?r))
    :effect (and (hot ?o) (not (cold ?o))))

  (:action chill
    :parameters (?a - agent ?p - place ?r - receptacle ?o - item)
    :precondition (and (holds ?a ?o) (coolable ?o) (near ?a ?p) (standsat ?r ?p) (cools ?r))
    :effect (and (cold ?o) (not (hot ?o))))

  (:action light
    :parameters (?a - agent ?p - place ?o - item ?r - receptacle)
    :precondition (and (lamp ?o) (inside ?o ?r) (near ?a ?p) (standsat ?r ?p))
    :effect (and (shining ?o)))
)
